"""Stores in HDFS. Read store.py first; upload.py is where one rename makes an object durable.

client.py keeps the connections to the name nodes.
"""
