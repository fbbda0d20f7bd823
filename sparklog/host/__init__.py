"""What the shells take from the machine they run on: clocks, deadlines, pauses, ids, the fork hook, standard streams.

Nothing else in `sparklog` asks for the time, draws an id or a random number, or hooks a fork; a lint rule enforces it.
Read clock.py first.
"""
