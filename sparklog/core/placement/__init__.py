"""Replicas of many partitions as operators and agents see them: their stores, what they lack, and how far they lag.

Read assignment.py first. The rules for one partition are in `core/replication/`.
"""
