"""Appends: the replicas that get the new records, and the replicas that leave the ISR because they lack them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import msgspec

from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    InvalidRequiredAcks,
    NoReplicaOnline,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
)
from sparklog.core.replication.partition import Replication, check_epoch
from sparklog.core.replication.reassignment import settled_ending_moves
from sparklog.core.types import LeaderEpoch, Offset, StoreId


class Acks(IntEnum):
    """The replicas that a writer waits for. The numbers are those of Kafka's protocol."""

    ALL = -1
    NONE = 0
    LEADER = 1

    @classmethod
    def of(cls, value: object) -> Acks:
        """Parse `all`, -1, 0 or 1, as a number or as text. Raises InvalidRequiredAcks for anything else (P-03)."""
        known = {"all": cls.ALL, "-1": cls.ALL, "0": cls.NONE, "1": cls.LEADER}
        if isinstance(value, bool) or str(value) not in known:
            raise InvalidRequiredAcks(f"acks: wanted all (or -1), 1 or 0, found {value!r}")
        return known[str(value)]


class HeldSlice(msgspec.Struct, frozen=True):
    """One slice of an append: the number of its offsets, and the live stores that hold its object."""

    offsets: int
    holders: frozenset[StoreId]


def is_fully_replicated(value: Replication) -> bool:
    """True if all replicas are in sync and have the whole log, there is a leader, and no move is under way.

    This is the usual case. If an append is on all replicas, `appended_everywhere` then gives its whole effect, whatever
    its acks. (During a move, an append may also end the move.)
    """
    return (
        value.high_watermark == value.next_offset
        and value.isr == value.replicas
        and value.leader is not None
        and not (value.adding or value.removing)
    )


def appended_everywhere(value: Replication, end: Offset) -> Replication:
    """Return the value that `apply` assumes after an append: the log, HW and the LEOs of the ISR are at `end`.

    It is the true one if `is_fully_replicated` and the append is on all replicas. Otherwise it may be wrong: below min
    ISR, for example, HW stays. So a record stores the fields in which the true value, that of `append`, differs from
    this one.
    """
    if value.isr == value.replicas:
        log_ends = (end,) * len(value.replicas)
    else:
        ends = zip(value.replicas, value.log_ends, strict=True)
        log_ends = tuple(end if store in value.isr else log_end for store, log_end in ends)
    return msgspec.structs.replace(value, next_offset=end, log_ends=log_ends, high_watermark=end)


def append(
    value: Replication,
    slices: Sequence[HeldSlice],
    acks: Acks,
    leader_epoch: LeaderEpoch,
    min_isr: int,
    *,
    pull: bool = False,
) -> Replication:
    """Append the slices at the next offset. With `acks=all` and without `pull`, HW passes them at once (rule H1).

    With `pull` the writer uploaded only to the leader's store: its records become visible as the followers fetch them,
    and a writer with `acks=all` waits until they are `committed`.

    Raises FencedLeaderEpoch or UnknownLeaderEpoch if the write began under another leader epoch, NoReplicaOnline if
    there is no leader, NotLeaderOrFollower if a slice is not on the leader's store, and NotEnoughReplicas if a write
    with `acks=all` is on too few in-sync replicas (with `pull`: if too few replicas are in sync).
    """
    check_epoch(value, leader_epoch)
    if value.leader is None:
        raise NoReplicaOnline(f"the partition has no leader, its replicas are {list(value.replicas)}")
    if any(value.leader not in slice_.holders for slice_ in slices):
        raise NotLeaderOrFollower(f"a write must be on the leader's store {value.leader}, found slices that are not")
    end = Offset(value.next_offset + sum(slice_.offsets for slice_ in slices))
    log_ends = tuple(
        _log_end(store, log_end, slices) if log_end == value.next_offset else log_end
        for store, log_end in zip(value.replicas, value.log_ends, strict=True)
    )
    isr = value.isr
    if acks is Acks.ALL:
        if not pull:
            whole = {store for store, log_end in zip(value.replicas, log_ends, strict=True) if log_end == end}
            isr = tuple(store for store in isr if store in whole)
        _check_enough(value, isr, min_isr)
    changed = msgspec.structs.replace(value, next_offset=end, isr=isr, log_ends=log_ends)
    # All slices belong to one epoch, so no election can happen here: a move that needs one ends with a report.
    return settled_ending_moves(value, changed, min_isr, silent=value.replicas)


def committed(value: Replication, end: Offset, min_isr: int, *, named: bool) -> bool:
    """True if records up to `end`, written with `acks=all` and `pull`, are on every in-sync replica; False if not yet.

    `named`: their slices are still in the log. If an election gave them up, HW passes their offsets all the same, so HW
    alone proves nothing. Raises NotLeaderOrFollower unless `named`, and NotEnoughReplicasAfterAppend if too few
    replicas are in sync.
    """
    if not named:
        raise NotLeaderOrFollower(
            f"the leader that had the records up to offset {end} was lost before others had them: write them again"
        )
    if value.high_watermark >= end:
        return True
    if len(value.isr) < value.required_isr(min_isr):
        raise NotEnoughReplicasAfterAppend(
            f"records up to offset {end} are written; they are visible once "
            f"{counted(value.required_isr(min_isr), 'store')} are in sync (min.insync.replicas), "
            f"found {list(value.isr)}"
        )
    return False


def _log_end(store: StoreId, log_end: Offset, slices: Sequence[HeldSlice]) -> Offset:
    """The new LEO of a replica that had the whole log before the append: the start of the first slice that it lacks."""
    for slice_ in slices:
        if store not in slice_.holders:
            break
        log_end = Offset(log_end + slice_.offsets)
    return log_end


def _check_enough(value: Replication, isr: Sequence[StoreId], min_isr: int) -> None:
    if len(isr) < value.required_isr(min_isr):
        raise NotEnoughReplicas(
            f"a write with acks=all needs {counted(value.required_isr(min_isr), 'store')} in sync "
            f"(min.insync.replicas), it is on {list(isr)} of {list(value.isr)}"
        )
