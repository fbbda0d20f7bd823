"""The producer of Python programs: `send` adds a record to those that wait, sender threads write it.

Read producer.py first, then sending.py (one flush) and record_future.py. The decisions are in core/producing.
"""
