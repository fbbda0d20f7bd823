"""Stores in directories. Read store.py first; names.py is where an object becomes durable, by one link."""
