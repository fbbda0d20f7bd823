"""Moves: a partition gets new replicas while it is written and read (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sparklog.core.errors import InvalidReplicaAssignment, NotEnoughReplicas, PreferredLeaderNotAvailable
from sparklog.core.replication.new_leader import led_by
from sparklog.core.replication.partition import Replication, settled
from sparklog.core.types import Offset, StoreId


def move(
    value: Replication,
    target: tuple[StoreId, ...],
    usable: Collection[StoreId],
    min_isr: int,
    empty_end: Offset,
    *,
    silent: Collection[StoreId] = (),
) -> Replication:
    """Begin a move to the replicas `target`. If another move is under way, this one takes its place.

    The old replicas stay until the new ones are in sync. A move back to the original replicas cancels the move under
    way. A move to the same replicas in another order is done at once. `usable`: the stores that new replicas may be put
    on. `empty_end`: the LEO of a new replica, which has no record yet: the log start, or the end of a gap that begins
    there. A `silent` store does not become the leader.

    Raises InvalidReplicaAssignment if the target is not valid, or if no replica that may lead without a loss would
    stay; NotEnoughReplicas if too few in-sync replicas would stay; PreferredLeaderNotAvailable if the leader would go
    at once and no replica can take its place.
    """
    if not target or len(set(target)) != len(target):
        raise InvalidReplicaAssignment(f"a partition needs different stores for its replicas, found {list(target)}")
    original = value.original
    unusable = [store for store in target if store not in original and store not in usable]
    if unusable:
        raise InvalidReplicaAssignment(f"stores {unusable} are fenced or not registered: no replica can move there")
    removing = tuple(store for store in original if store not in target)
    replicas = (*target, *removing)
    known = dict(zip(value.replicas, value.log_ends, strict=True))
    changed = msgspec.structs.replace(
        value,
        replicas=replicas,
        log_ends=tuple(known.get(store, empty_end) for store in replicas),
        isr=tuple(store for store in replicas if store in value.isr),
        adding=tuple(store for store in target if store not in original),
        removing=removing,
        arrived=(*value.arrived, *((store, value.next_offset) for store in target if store not in known)),
    )
    if len(changed.isr) < min(len(value.isr), changed.required_isr(min_isr)):
        raise NotEnoughReplicas(
            f"in sync are {list(value.isr)}, of which only {list(changed.isr)} would stay; "
            f"the topic needs {changed.required_isr(min_isr)} in sync (min.insync.replicas)"
        )
    if max(changed.log_ends) < value.high_watermark <= max(value.log_ends):
        raise InvalidReplicaAssignment(
            f"only {value.whole} may lead without a loss, and none of them would stay: "
            "the partition would then need an unclean election"
        )
    if value.leader is not None and value.leader not in replicas:
        changed = led_by(changed, _successor(changed, changed.isr, silent)).after
    return settled_ending_moves(value, changed, min_isr, silent=silent)


def settled_ending_moves(
    before: Replication, changed: Replication, min_isr: int, *, silent: Collection[StoreId] = ()
) -> Replication:
    """Settle `changed`, and remove the old replicas of a move if the move can end now.

    The move can end if every new replica is in sync, if at least min ISR of the replicas that stay are in sync, and if
    there is a leader that stays or has a successor. The successor must be an in-sync replica that stays, must not be
    `silent`, and must have all of the leader's records (rule E7).
    """
    if not (changed.adding or changed.removing):
        return settled(before, changed, min_isr)
    target = changed.target
    in_sync = tuple(store for store in target if store in changed.isr)
    ready = set(changed.adding) <= set(in_sync) and len(in_sync) >= min(min_isr, len(target))
    if not ready or changed.leader is None:
        return settled(before, changed, min_isr)
    if changed.leader in changed.removing:
        if not _successors(changed, in_sync, silent):
            return settled(before, changed, min_isr)
        changed = led_by(changed, _successor(changed, in_sync, silent)).after
    done = msgspec.structs.replace(
        changed,
        replicas=target,
        log_ends=tuple(changed.log_end(store) for store in target),
        isr=in_sync,
        adding=(),
        removing=(),
    )
    return settled(before, done, min_isr)


def _successor(value: Replication, among: Collection[StoreId], silent: Collection[StoreId]) -> StoreId:
    """Return the first of `_successors`. Raises PreferredLeaderNotAvailable if there is no successor."""
    for store in _successors(value, among, silent):
        return store
    raise PreferredLeaderNotAvailable(
        f"the move removes the leader, and no store of {list(among)} that can be reached has its records up to offset "
        f"{value.next_offset} yet"
    )


def _successors(value: Replication, among: Collection[StoreId], silent: Collection[StoreId]) -> list[StoreId]:
    """Return the stores of `among` that are not `silent` and have all of the leader's records (rule E7)."""
    return [store for store in among if value.log_end(store) == value.next_offset and store not in silent]
