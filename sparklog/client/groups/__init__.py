"""Consumer groups, as processes use them: committed offsets (offsets.py), a member (member.py), a reset (resets.py).

core/groups and core/decide/groups.py define a group, and decide the shares of its members.
"""
