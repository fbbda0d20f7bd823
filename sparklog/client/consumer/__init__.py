"""The consumer of Python programs, which `Cluster.consumer` returns.

Read consumer.py first. core/reading/consumer_positions.py decides where to resume and what to read; the files here read
and convert records, and commit offsets.
"""
