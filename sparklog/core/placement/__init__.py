"""Replicas of many partitions as operators and agents see them: where they go, what they lack, how far they are behind.

The rules for one partition are in `core/replication/`.
"""
