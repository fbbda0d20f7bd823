"""Reports of agents: LEOs rise, replicas join the ISR, and lagging replicas leave it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from sparklog.core.errors import OffsetOutOfRange, StaleBrokerEpoch
from sparklog.core.replication.election import with_leader
from sparklog.core.replication.partition import (
    Replication,
    ReplicationChange,
    check_view,
    settled,
    with_log_ends,
)
from sparklog.core.replication.reassignment import settled_ending_moves
from sparklog.core.types import LeaderEpoch, Offset, StoreId


class LogEndReport(msgspec.Struct, frozen=True):
    """An agent's report that its store holds the log up to `log_end`, the end of a slice or of a gap after a slice.

    It is about the log as it was at `leader_epoch` and `version` of the partition.
    """

    store: StoreId
    registration: int
    leader_epoch: LeaderEpoch
    version: int
    log_end: Offset


def report(
    value: Replication,
    reported: LogEndReport,
    registrations: Mapping[StoreId, int],
    min_isr: int,
    *,
    silent: Collection[StoreId] = (),
) -> ReplicationChange:
    """Raise the LEO of a replica, and let it join the ISR if it may (`may_join`).

    If the partition has no leader, a reachable replica that has every committed record is elected (rule E1).
    `registrations` are the numbers of the stores that are registered and not fenced. A `silent` store is not elected. A
    report never lowers a LEO (rule F2), so a late or repeated report changes nothing. Raises FencedLeaderEpoch,
    UnknownLeaderEpoch, InvalidUpdateVersion, StaleBrokerEpoch, OffsetOutOfRange, and NotLeaderOrFollower if the store
    has no replica of the partition.
    """
    check_view(value, reported.leader_epoch, reported.version)
    store = reported.store
    if registrations.get(store) != reported.registration:
        raise StaleBrokerEpoch(
            f"store {store} reports under registration {reported.registration}, its registration is "
            f"{registrations.get(store)}"
        )
    if reported.log_end > value.next_offset:
        raise OffsetOutOfRange(
            f"store {store} reports a log end of {reported.log_end}, the next offset is {value.next_offset}"
        )
    risen = with_log_ends(value, {store: max(value.log_end(store), reported.log_end)})
    if value.leader is None:
        reachable = [known for known in registrations if known not in silent]
        return with_leader(value, risen, reachable, min_isr)
    if may_join(risen, store):
        risen = msgspec.structs.replace(risen, isr=(*risen.isr, store))
    return ReplicationChange(settled_ending_moves(value, risen, min_isr, silent=silent))


def may_join(value: Replication, store: StoreId) -> bool:
    """True if the replica may join the ISR: it has all records below HW, and all of earlier epochs (rule I1).

    Returns False if it is in the ISR already, or if there is no leader. The caller makes sure that its store is live. A
    replica that a move removes may join, too. Otherwise, if the other old replicas were away for a moment during a long
    move, writes with `acks=all` would fail until the new replicas have caught up.
    """
    if value.leader is None or store in value.isr:
        return False
    _, epoch_start = value.epochs[-1]
    return value.log_end(store) >= max(value.high_watermark, epoch_start)


def drop_lagging(
    value: Replication, lagging: Collection[StoreId], leader_epoch: LeaderEpoch, version: int, min_isr: int
) -> Replication:
    """Remove the `lagging` replicas from the ISR: those not caught up for `replica.lag.time.max.ms` (rule I2).

    The leader stays, and so does a replica that has all of the leader's records by now. Raises FencedLeaderEpoch,
    UnknownLeaderEpoch, InvalidUpdateVersion.
    """
    check_view(value, leader_epoch, version)
    leave = {store for store in lagging if store != value.leader and value.log_end(store) < value.next_offset}
    isr = tuple(store for store in value.isr if store not in leave)
    return settled(value, msgspec.structs.replace(value, isr=isr), min_isr)
