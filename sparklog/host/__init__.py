"""What the shells take from the machine they run on: clocks, deadlines, pauses, ids, and what a fork leaves behind.

Nothing else in `sparklog` asks for the time, draws an id or a random number, or hooks a fork: a lint rule says so.
Begin with `clock.py`.
"""
