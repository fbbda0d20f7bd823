"""What rewrites and retention do to LEOs (DESIGN 4): no replica is said to hold an object that it never got."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from sparklog.core.describe.readable import counted
from sparklog.core.errors import NoReplicaOnline, NotEnoughReplicas, NotLeaderOrFollower
from sparklog.core.replication.epoch_history import trimmed_from_start
from sparklog.core.replication.partition import Replication, settled, still_arriving
from sparklog.core.types import Offset, OffsetRange, StoreId


def rewritten_everywhere(value: Replication) -> Replication:
    """After a rewrite that every replica has which had what it was made from."""
    return msgspec.structs.replace(value, version=value.version + 1)


def check_swap(value: Replication, holders: Collection[StoreId], min_isr: int) -> None:
    """Refuse a rewrite that these live stores hold if it could cost records that the old slices would have kept.

    If min ISR of the in-sync stores hold it, it is accepted, and in-sync stores without it leave the ISR. The partition
    may then survive fewer losses than before, but never fewer than min ISR - 1, which is what the topic asks for. An
    append with `acks=all` settles for the same. Replicas outside the ISR don't count: the ELR is empty then (KIP-966).

    If fewer hold it, every replica that has all committed records must hold it, be it in the ISR, in the ELR or in
    neither. Each of them may be the next leader (rule E1), and after one more loss it may be the only one that still
    has the records. So a dead store delays rewrites, but only while it stops writes with `acks=all` too.

    Raises NoReplicaOnline, NotLeaderOrFollower, NotEnoughReplicas.
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
    return _swapped(value, rewritten, holders, min_isr)


def _swapped(value: Replication, rewritten: OffsetRange, holders: Collection[StoreId], min_isr: int) -> Replication:
    isr = tuple(store for store in value.isr if store in holders)
    log_ends = tuple(
        _log_end(end, rewritten, held=store in holders)
        for store, end in zip(value.replicas, value.log_ends, strict=True)
    )
    return settled(value, msgspec.structs.replace(value, isr=isr, log_ends=log_ends), min_isr, rewritten=True)


def given_up(value: Replication, at: OffsetRange, min_isr: int) -> Replication:
    """All records of some slices are lost (see `without`), so no slice is left there, and `at` is the gap behind them.

    There is nothing that a store would have to hold. So it needs no leader, and a partition can get one again whose log
    no replica has whole.
    """
    return _swapped(value, at, value.replicas, min_isr)


def check_given_up(value: Replication, lost: Sequence[OffsetRange], live: Collection[StoreId]) -> None:
    """Refuse to give up records that a store may have which is fenced, and so not among those that are `live`.

    That is a replica whose log goes beyond their start. While no replica may lead, it is any replica: its log may end
    before an object that it lost, and the bytes behind that end may be the last ones. Raises NotEnoughReplicas.
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
    """No store can provide the records of `lost` any more, and an operator accepted that: a read there is DATA_LOSS.

    `first`: the part of that which a rewrite begins with, maybe nothing. A replica that ends inside it ends behind it
    from now on, because nobody lacks records that nobody has.
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
