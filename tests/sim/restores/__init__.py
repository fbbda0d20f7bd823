"""Simulated restores: copies of the metadata chain on other stores, lost places, and the old chain alive beside it all.

One seed is one run of the real code. Read world.py first: who acts, and when; then history.py: what was promised.
"""
