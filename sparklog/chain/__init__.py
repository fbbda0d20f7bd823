"""The metadata log: numbered entries on a store, and the machines and shells that write and follow it.

Read entry.py first, then group_commit.py (writing) and catch_up.py (following). These machines only issue requests and
do no I/O; committer.py and follower.py perform the requests.
"""
