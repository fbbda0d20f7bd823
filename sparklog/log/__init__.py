"""Records as Arrow objects with indexes: write, read, scan, look up by time, and rewrite into segments.

Read batch.py first, then write/ and read/.
"""
