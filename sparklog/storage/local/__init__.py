"""Stores in directories. Read store.py first. In names.py, one link makes an object durable."""
