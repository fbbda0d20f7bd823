"""Commands about topics: their partitions, replicas, segments, and the groups that read them.

Read topic_verbs.py first.
"""
