"""The machine that the shells run on: clocks, deadlines, pauses, ids, the fork hook, standard streams.

Nothing else in `sparklog` reads the time, draws an id or a random number, or hooks a fork; a lint rule enforces it.
Read clock.py first.
"""
