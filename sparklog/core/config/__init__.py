"""Config keys of topics and clusters, and settings of stores: each key declared once, for parsing, checks and docs.

Read key.py first: it is the declaration; topic.py and cluster.py hold Kafka's keys.
"""
