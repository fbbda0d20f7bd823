"""Reads of records and of metadata tables, in batches and in micro-batches.

Read batch_reader.py first, then stream_reader.py.
"""
