"""The producer of Python programs, without I/O, clock or threads: what waits, what is sent, in which order.

Read producer_settings.py, buffer.py (when to take what waits), flush.py (what was taken), then flushes.py (what becomes
of it).
"""
