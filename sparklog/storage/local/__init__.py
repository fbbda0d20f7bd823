"""Stores in directories. Read store.py first, then names.py: one hard link turns a temporary file into an object."""
