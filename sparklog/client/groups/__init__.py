"""Consumer groups in a client: committed offsets (offsets.py), a member (member.py), a reset of offsets (resets.py).

Read offsets.py first. core/groups and core/decide/groups.py define a group, and divide the partitions among its
members.
"""
