"""What rewrites and retention do to LEOs (DESIGN 4): no replica is said to hold an object that it never got."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sparklog.core.errors import NoReplicaOnline, NotEnoughReplicas, NotLeaderOrFollower
from sparklog.core.readable import counted
from sparklog.core.replication.epoch_history import trimmed_from_start
from sparklog.core.replication.partition import Replication, settled, still_arriving
from sparklog.core.types import Offset, OffsetRange, StoreId


def rewritten_everywhere(value: Replication) -> Replication:
    """After a rewrite that every replica has which had what it was made from."""
    return msgspec.structs.replace(value, version=value.version + 1)


def check_swap(value: Replication, holders: Collection[StoreId], min_isr: int) -> None:
    """Refuse a rewrite that these live stores hold, if records could be lost that the old slices would have kept.

    At least min ISR in-sync stores hold it: then it may. The members of the ISR that lack it leave, so the partition
    may bear fewer losses than before, but always as many as the topic asks for: min ISR - 1. An append with `acks=all`
    is accepted with just as few copies. Outside the ISR nobody is counted on (KIP-966 keeps no ELR then).

    Fewer hold it: then each replica that has everything committed must, whether it is in the ISR, in the ELR or only
    away, for each may be the next leader (rule E1) and the last one to have the records. A dead one therefore delays
    rewrites, but only while writes with `acks=all` are refused too.
    """
    if value.leader is None:
        raise NoReplicaOnline(f"the partition has no leader, its replicas are {list(value.replicas)}")
    if value.leader not in holders:
        raise NotLeaderOrFollower(f"a rewrite must be on the leader's store {value.leader}, it is not")
    in_sync = [store for store in value.isr if store in holders]
    lacking = [store for store in value.whole if store not in holders]
    if lacking and len(in_sync) < value.enough(min_isr):
        raise NotEnoughReplicas(
            f"a rewrite needs to be on {counted(value.enough(min_isr), 'store')} in sync (min.insync.replicas) or on "
            f"all that have every committed record: it is on {in_sync} in sync, and not on {lacking}"
        )


def swap(value: Replication, rewritten: OffsetRange, holders: Collection[StoreId], min_isr: int) -> Replication:
    """The slices of this range are other ones now, which these live stores hold. A gap behind them is part of it.

    A replica without them ends where they begin, and is in neither ISR nor ELR. Raises what `check_swap` raises.
    """
    check_swap(value, holders, min_isr)
    isr = tuple(store for store in value.isr if store in holders)
    log_ends = tuple(
        _log_end(end, rewritten, held=store in holders)
        for store, end in zip(value.replicas, value.log_ends, strict=True)
    )
    return settled(value, msgspec.structs.replace(value, isr=isr, log_ends=log_ends), min_isr, rewritten=True)


def move_log_start(value: Replication, to: Offset, empty_end: Offset | None = None) -> Replication:
    """Retention forgot what lies below `to`, which is at most HW: nobody lacks it any more (rule E6).

    `empty_end`: the LEO of a replica that holds nothing from then on, if a gap begins at `to`.
    """
    least = to if empty_end is None else empty_end
    after = msgspec.structs.replace(
        value,
        log_start=to,
        log_ends=tuple(max(end, least) for end in value.log_ends),
        epochs=trimmed_from_start(value.epochs, to),
        lost=tuple(OffsetRange(max(each.start, to), each.end) for each in value.lost if each.end > to),
    )
    return msgspec.structs.replace(after, arrived=still_arriving(after))


def _log_end(end: Offset, rewritten: OffsetRange, *, held: bool) -> Offset:
    """LEO after the swap: a replica that was inside the range goes to its end with it, or back to its start."""
    if not held:
        return min(end, rewritten.start)
    return end if end < rewritten.start else max(end, rewritten.end)
