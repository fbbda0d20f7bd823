"""Config keys of topics and clusters, and settings of stores. Each key is declared once, for parsing, checks and docs.

Read key.py first: it defines what a key is. topic_keys.py and cluster_config.py declare Kafka's keys.
"""
