"""Stores in HDFS. Read store.py first. In upload.py, one rename makes an object durable.

client.py keeps the connections to the name nodes.
"""
