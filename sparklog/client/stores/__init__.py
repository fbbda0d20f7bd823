"""Stores of a cluster: add one, look at it, check it, take it back. Read add_store.py first."""
