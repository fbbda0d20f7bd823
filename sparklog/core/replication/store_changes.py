"""Changes of a partition when one of its stores is fenced, loses data, comes back or falls silent."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sparklog.core.replication.election import with_leader
from sparklog.core.replication.partition import Replication, ReplicationChange, with_log_ends
from sparklog.core.replication.reassignment import settled_ending_moves
from sparklog.core.types import Offset, StoreId


def fence(
    value: Replication, store: StoreId, reachable: Collection[StoreId], min_isr: int, *, unclean: bool = False
) -> ReplicationChange:
    """Fence the store: it leaves the ISR, and if it led, another replica is elected.

    The store keeps its data. So if too few replicas are in sync, it enters the ELR (rule E2), and may lead once it is
    back.
    """
    isr = tuple(member for member in value.isr if member != store)
    others = [other for other in reachable if other != store]
    return with_leader(value, msgspec.structs.replace(value, isr=isr), others, min_isr, unclean=unclean)


def lose(
    value: Replication,
    store: StoreId,
    held_end: Offset,
    reachable: Collection[StoreId],
    min_isr: int,
    *,
    unclean: bool = False,
) -> ReplicationChange:
    """Record that the store was wiped, or lacks objects that the chain says it holds: its log ends at `held_end`.

    The store leaves the ISR and the ELR, and its LEO falls to `held_end`, unless it was lower (rule F2). In the same
    entry, the store gets a new registration.
    """
    held = max(value.log_start, min(held_end, value.log_end(store)))
    isr = tuple(member for member in value.isr if member != store)
    changed = with_log_ends(msgspec.structs.replace(value, isr=isr), {store: held})
    return with_leader(value, changed, reachable, min_isr, ineligible=(store,), unclean=unclean, rewritten=True)


def reachable_changed(
    value: Replication, reachable: Collection[StoreId], min_isr: int, *, unclean: bool = False
) -> ReplicationChange:
    """Elect a leader if there is none or the present one can't be reached, and another replica may lead (rule E1).

    Call this when the reachable stores have changed: one came back, or its agent went up or down. A silent leader
    stays until there is a successor, and a silent store stays in the ISR until it lags (rule I2).
    """
    return with_leader(value, value, reachable, min_isr, unclean=unclean)


def min_isr_changed(value: Replication, min_isr: int, *, silent: Collection[StoreId] = ()) -> Replication:
    """Settle the replicas after a change of the topic's `min.insync.replicas`.

    If enough replicas are in sync after the change, HW may move, the ELR is cleared, and a move may end. A `silent`
    store does not become the leader when a move ends.
    """
    return settled_ending_moves(value, value, min_isr, silent=silent)
