"""Consumer groups, as processes use them: what is committed (offsets.py), a member (member.py), a reset (resets.py).

What a group is, and who reads what in it, is decided in core/groups and core/decide/groups.py.
"""
