"""Reading: positions of readers, and the plan of a batch, of a micro-batch and of a poll. Without I/O or clock.

Read positions.py first (what a reader remembers, and how far it is valid after elections), then plan.py.
"""
