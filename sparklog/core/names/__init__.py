"""Rules for the names of topics, stores and writes. Read topic_names.py first."""
