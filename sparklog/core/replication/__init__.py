"""Replicas of one partition: leader, ISR, ELR, LEOs and HW as a value, and each rule of replication as a transition.

Read partition.py first: the value, and what every transition ends with. Rule ids (H1, I1, E2, …) stand for the same
rules everywhere. No transition changes its argument: it returns the value after it, or raises Kafka's error.
"""
