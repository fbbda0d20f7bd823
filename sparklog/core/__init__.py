"""Decisions without I/O: commands become records, records change the state, and reads are planned from the state.

Nothing here reads a clock, draws random numbers or opens a file. Read types.py first, then state.py, decide/ and
apply.py.
"""
