"""The Python consumer: `Cluster.consumer`.

Read consumer.py first. Decisions are made in core/reading/consumer_positions.py; the other files here read, convert and
commit.
"""
