"""Reports of agents: LEOs rise, replicas join the ISR, and those that lag leave it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from sparklog.core.errors import OffsetOutOfRange, StaleBrokerEpoch
from sparklog.core.replication.partition import Change, Replication, check_view, settled, with_log_ends
from sparklog.core.replication.reassignment import with_move_completed
from sparklog.core.replication.store_changes import with_leader_found
from sparklog.core.types import LeaderEpoch, Offset, StoreId


class Report(msgspec.Struct, frozen=True):
    """An agent checked that its store holds the log up to `log_end`, as the log was at this epoch and version.

    `log_end` lies at the end of a slice; if a gap follows there, at the end of the gap.
    """

    store: StoreId
    registration: int
    leader_epoch: LeaderEpoch
    version: int
    log_end: Offset


def report(
    value: Replication,
    reported: Report,
    registrations: Mapping[StoreId, int],
    min_isr: int,
    *,
    silent: Collection[StoreId] = (),
) -> Change:
    """The replica has at least this much (rules F1, F2), and joins the ISR if it may (I1).

    If nobody leads the partition, somebody may now (E1). `registrations` are the numbers of the stores that are
    registered and not fenced. A `silent` one does not begin to lead. A report never lowers a LEO, so one that comes
    late or twice changes nothing.
    """
    check_view(value, reported.leader_epoch, reported.version)
    store = reported.store
    if registrations.get(store) != reported.registration:
        raise StaleBrokerEpoch(
            f"store {store} reports under registration {reported.registration}, valid is {registrations.get(store)}"
        )
    if reported.log_end > value.next_offset:
        raise OffsetOutOfRange(f"store {store} reports a log end of {reported.log_end}, it is {value.next_offset}")
    risen = with_log_ends(value, {store: max(value.log_end(store), reported.log_end)})
    if value.leader is None:
        reachable = [known for known in registrations if known not in silent]
        return with_leader_found(value, risen, reachable, min_isr)
    if may_join(risen, store):
        risen = msgspec.structs.replace(risen, isr=(*risen.isr, store))
    return Change(with_move_completed(value, risen, min_isr, silent=silent))


def may_join(value: Replication, store: StoreId) -> bool:
    """Whether a live replica joins the ISR: it has all that is committed and that came before this leader (rule I1).

    So does one that is being removed, until it is gone: where the old replicas were away for a moment, a long move
    would otherwise stop writes with `acks=all` until the new ones have caught up.
    """
    if value.leader is None or store in value.isr:
        return False
    _, epoch_start = value.epochs[-1]
    return value.log_end(store) >= max(value.high_watermark, epoch_start)


def drop_lagging(
    value: Replication, lagging: Collection[StoreId], leader_epoch: LeaderEpoch, version: int, min_isr: int
) -> Replication:
    """Replicas that were not caught up for `replica.lag.time.max.ms` leave the ISR (rule I2).

    Neither the leader leaves this way, nor one that has all the leader has, however long it was silent.
    """
    check_view(value, leader_epoch, version)
    leave = {store for store in lagging if store != value.leader and value.log_end(store) < value.next_offset}
    isr = tuple(store for store in value.isr if store not in leave)
    return settled(value, msgspec.structs.replace(value, isr=isr), min_isr)
