"""The producer of Python programs, without I/O, clock or threads: what waits, what is sent, in which order.

Read settings.py first, then buffer.py (when to take what waits), flush.py (what was taken together) and flushes.py (what becomes of it).
"""
