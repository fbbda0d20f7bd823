"""Turns entries into state. Read catch_up.py first; follower.py is the shell."""
