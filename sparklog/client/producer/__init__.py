"""The producer of Python programs: `send` puts a record into a buffer, from which sender threads write it.

Read producer.py first, then sending.py (one flush) and record_future.py. core/producing decides when to write records,
in which order, and what to do after an error.
"""
