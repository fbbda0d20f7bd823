"""Clocks, deadlines, pauses, ids, the fork hook and standard streams, for the code that does I/O.

Nothing else in `sparklog` reads the time, draws an id or a random number, or hooks a fork; a lint rule enforces it.
Read clock.py first.
"""
