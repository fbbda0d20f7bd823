"""LEOs after rewrites and retention. A replica counts as holding new slices only if they reached its store."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from sparklog.core.describe.readable import counted
from sparklog.core.errors import NoReplicaOnline, NotEnoughReplicas, NotLeaderOrFollower
from sparklog.core.replication.epoch_history import trimmed_from_start
from sparklog.core.replication.partition import Replication, settled, still_arriving
from sparklog.core.types import Offset, OffsetRange, StoreId


def rewritten_everywhere(value: Replication) -> Replication:
    """Return the replicas after a rewrite that is on every replica that had the old slices: only the version rises."""
    return msgspec.structs.replace(value, version=value.version + 1)


def check_swap(value: Replication, holders: Collection[StoreId], min_isr: int) -> None:
    """Refuse a rewrite if its slices are on too few stores, so that it could lose records that the old slices keep.

    `holders`: the live stores that hold the new slices. The leader's store must be one of them.

    If min ISR of the in-sync stores hold the rewrite, it is accepted, and in-sync stores without it leave the ISR. The
    partition then survives the loss of at least min ISR - 1 stores, which is what the topic asks for, and all that an
    append with `acks=all` gives. The ELR is empty then (KIP-966), so stores outside the ISR need not hold the rewrite.

    If fewer in-sync stores hold it, every replica that has all committed records must hold it, in sync or not. Each of
    them may be the next leader (rule E1), and after one more loss it may be the only one that still has the records. So
    a dead store delays rewrites only while it stops writes with `acks=all` as well.

    Raises NoReplicaOnline if there is no leader, NotLeaderOrFollower if its store lacks the rewrite, NotEnoughReplicas
    if too few other stores hold it.
    """
    if value.leader is None:
        raise NoReplicaOnline(f"the partition has no leader, its replicas are {list(value.replicas)}")
    if value.leader not in holders:
        raise NotLeaderOrFollower(f"a rewrite must be on the leader's store {value.leader}, and it is not")
    in_sync = [store for store in value.isr if store in holders]
    lacking = [store for store in value.whole if store not in holders]
    if lacking and len(in_sync) < value.required_isr(min_isr):
        raise NotEnoughReplicas(
            f"a rewrite needs to be on {counted(value.required_isr(min_isr), 'store')} in sync "
            f"(min.insync.replicas) or on all that have every committed record: it is on {in_sync} "
            f"in sync, and not on {lacking}"
        )


def swap(value: Replication, rewritten: OffsetRange, holders: Collection[StoreId], min_isr: int) -> Replication:
    """The replicas after the slices of a range were rewritten. `holders`: the live stores that hold the new slices.

    The range includes a gap that follows the slices. The log of a replica without the new slices ends at the start of
    the range, and the replica leaves ISR and ELR. Raises the errors of `check_swap`.
    """
    check_swap(value, holders, min_isr)
    return _swapped(value, rewritten, holders, min_isr)


def _swapped(value: Replication, rewritten: OffsetRange, holders: Collection[StoreId], min_isr: int) -> Replication:
    isr = tuple(store for store in value.isr if store in holders)
    log_ends = tuple(
        _log_end(end, rewritten, held=store in holders)
        for store, end in zip(value.replicas, value.log_ends, strict=True)
    )
    return settled(value, msgspec.structs.replace(value, isr=isr, log_ends=log_ends), min_isr, rewritten=True)


def with_records_lost(value: Replication, at: OffsetRange, min_isr: int) -> Replication:
    """Return the replicas after the slices in `at`, whose records are all lost, were replaced by a gap (see `without`).

    A gap counts as held by every replica, so this needs no leader. If no replica had every committed record before,
    one may have them all now, and may lead.
    """
    return _swapped(value, at, value.replicas, min_isr)


def check_given_up(value: Replication, lost: Sequence[OffsetRange], live: Collection[StoreId]) -> None:
    """Raise NotEnoughReplicas if a replica on a fenced store may have some of the `lost` records.

    `live`: the stores that are not fenced. A replica may have records of a `lost` range if its LEO is above the start
    of the range. While the partition has no leader, every replica may have some: its LEO may be low because of one lost
    object, and its bytes above the LEO may be the last copy.
    """
    away = [
        store
        for store, end in zip(value.replicas, value.log_ends, strict=True)
        if store not in live and (value.leader is None or any(end > range_.start for range_ in lost))
    ]
    if lost and away:
        raise NotEnoughReplicas(
            f"records {[(range_.start, range_.end) for range_ in lost]} can't be given up: stores {away} are fenced, "
            "and may have them: bring these back first"
        )


def without(value: Replication, first: OffsetRange, lost: Sequence[OffsetRange]) -> Replication:
    """Return the replicas after an operator gave up the `lost` records, which no store has.

    Reading these records raises DataLoss. `first`: the part of the rewritten range before its first new slice, maybe
    empty; without new slices, the whole range. All records in `first` are lost, so it counts as held by every replica:
    a LEO inside `first` rises to its end.
    """
    ranges: list[OffsetRange] = []
    for range_ in sorted((*value.lost, *lost)):
        if ranges and range_.start <= ranges[-1].end:
            ranges[-1] = OffsetRange(ranges[-1].start, max(ranges[-1].end, range_.end))
        else:
            ranges.append(range_)
    log_ends = tuple(first.end if first.start <= end < first.end else end for end in value.log_ends)
    return msgspec.structs.replace(value, lost=tuple(ranges), log_ends=log_ends)


def move_log_start(value: Replication, to: Offset, empty_end: Offset | None = None) -> Replication:
    """Return the replicas after the log start has risen to `to`, which is at most HW.

    Lower LEOs rise to `to`; if a gap begins at `to`, they rise to the end of the gap, `empty_end`. The epoch history
    begins at `to` (rule E6).
    """
    least = to if empty_end is None else empty_end
    after = msgspec.structs.replace(
        value,
        log_start=to,
        log_ends=tuple(max(end, least) for end in value.log_ends),
        epochs=trimmed_from_start(value.epochs, to),
        lost=tuple(OffsetRange(max(range_.start, to), range_.end) for range_ in value.lost if range_.end > to),
    )
    return msgspec.structs.replace(after, arrived=still_arriving(after))


def _log_end(end: Offset, rewritten: OffsetRange, *, held: bool) -> Offset:
    """Return the LEO of a replica after a rewrite of a range. Before the rewrite, it was `end`.

    A LEO below the range stays. Any other LEO rises at least to the end of the range if the replica has the new slices
    (`held`), and falls to the start of the range if not.
    """
    if not held:
        return min(end, rewritten.start)
    return end if end < rewritten.start else max(end, rewritten.end)
