"""Records as Arrow objects with indexes: writing, reading, scanning, looking up by time, joining into segments.

Read batch.py first, then object_writer.py and object_reader.py.
"""
