"""Replicas of one partition: leader, ISR, ELR, LEOs and HW as a value, and each rule of replication as a transition.

Read partition.py first: it defines the value, and `settled`, the step that settles it at the end of nearly
every transition. A rule id (H1, I1, E2, …) after a statement names that rule, in code and tests; "The rules" in
docs/replication.md lists them all. A transition never changes its argument: it returns the new value, or raises Kafka's
error.
"""
