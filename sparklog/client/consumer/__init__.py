"""The Python consumer: `Cluster.consumer`.

Read consumer.py first. What it decides by is core/consumer_positions.py; the other files here read, convert and commit.
"""
