"""Consumer groups: their members, the detection of silent ones, their progress and their lag.

Read membership.py first. The effects of a join, a commit or an eviction are decided in core/decide/groups.py.
"""
