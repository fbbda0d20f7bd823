"""Turns commands into entries. Read claim.py (the race for a slot), then group_commit.py; committer.py is the shell."""
