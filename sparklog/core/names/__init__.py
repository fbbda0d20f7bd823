"""Rules for the names of topics, stores and writes."""
