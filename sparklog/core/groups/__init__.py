"""Consumer groups: the members that share partitions, the silent ones among them, and the view of a group for users.

Read membership.py first. The effects of a join, a commit or an eviction are decided in core/decide/groups.py.
"""
