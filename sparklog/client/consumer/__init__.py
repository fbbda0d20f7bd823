"""The Python consumer: `Cluster.consumer`.

Read consumer.py first. Its decisions are in core/reading/consumer_positions.py; the other files here read, convert and
commit.
"""
