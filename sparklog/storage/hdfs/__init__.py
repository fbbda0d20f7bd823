"""Stores in HDFS. Read store.py first; upload.py is where an object becomes durable, by one rename.

client.py keeps the connections to the name nodes.
"""
