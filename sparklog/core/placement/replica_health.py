"""The health of one partition's replicas: whether it can be written to, and whether replicas are missing in its ISR."""

from __future__ import annotations

from sparklog.core.replication.partition import Replication


def is_offline(value: Replication) -> bool:
    """True if the partition has no leader, so that it can't be written to."""
    return value.leader is None


def is_under_min_isr(value: Replication, min_isr: int) -> bool:
    """True if fewer replicas are in sync than a write with acks=all needs."""
    return len(value.isr) < value.required_isr(min_isr)


def is_under_replicated(value: Replication) -> bool:
    """True if a replica is not in sync. Replicas that a move adds don't count."""
    return not set(value.isr).issuperset(value.original)
