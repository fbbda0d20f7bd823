"""Stores in directories. Read store.py first; names.py is where one link makes an object durable."""
