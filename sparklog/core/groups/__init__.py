"""Consumer groups: the members that share partitions, who of them is silent, and what people are shown of a group.

Read membership.py first. What a join, a commit or an eviction changes is decided in core/decide/groups.py.
"""
