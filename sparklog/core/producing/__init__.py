"""The producer of Python programs, without I/O, clock or threads: waiting records, flushes under way, and their order.

Read producer_settings.py, buffer.py (when to take the waiting records), flush.py (the records taken), then flushes.py
(how they are sent) and flush_errors.py (what an error means for them).
"""
