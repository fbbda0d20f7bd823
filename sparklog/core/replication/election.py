"""Elections: which replica may lead, and what the log forgets if the new leader has less than the last one had."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sparklog.core.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    IneligibleReplica,
    NotEnoughReplicas,
    PreferredLeaderNotAvailable,
)
from sparklog.core.replication.epoch_history import opened, truncated
from sparklog.core.replication.partition import Change, Replication, settled
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, StoreId


def led_by(value: Replication, leader: StoreId) -> Change:
    """`leader` opens the next epoch at the next offset (rule E3), and the slices above its LEO are forgotten (E4).

    Their offsets are never used again. So every replica that has as much as the leader gets the same LEO: the next
    offset. The result is not settled yet: its ELR, HW and version are still the old ones.
    """
    end, next_offset = value.log_end(leader), value.next_offset
    epoch = LeaderEpoch(value.leader_epoch + 1)
    after = msgspec.structs.replace(
        value,
        leader=leader,
        leader_epoch=epoch,
        log_ends=tuple(next_offset if log_end >= end else log_end for log_end in value.log_ends),
        epochs=opened(truncated(value.epochs, end), epoch, next_offset),
        lost=_with_lost(value.lost, end, value.high_watermark),
    )
    return Change(after, OffsetRange(end, next_offset) if end < next_offset else None)


def with_leader(
    before: Replication,
    changed: Replication,
    reachable: Collection[StoreId],
    min_isr: int,
    *,
    ineligible: Collection[StoreId] = (),
    unclean: bool = False,
    rewritten: bool = False,
) -> Change:
    """`changed`, settled, under a leader that can be reached if there is such a replica (rule E1).

    A leader that is in sync and reachable stays. A leader that left the ISR does not stay: without a successor the
    partition is offline. A leader that is in sync but silent stays until another replica may lead.
    """
    leader = changed.leader if changed.leader in changed.isr else None
    changed = msgspec.structs.replace(changed, leader=leader)
    still = settled(before, changed, min_isr, ineligible=ineligible, rewritten=rewritten)
    if leader is not None and leader in reachable:
        return Change(still)
    candidate = _clean_candidate(still, reachable)
    isr = (*still.isr, candidate) if candidate is not None else ()
    if candidate is None and unclean:
        candidate = _longest(still, reachable)
        if candidate is not None:
            isr, ineligible = (candidate,), still.replicas
    if candidate is None:
        return Change(still)
    elected = led_by(msgspec.structs.replace(changed, isr=isr), candidate)
    rewritten = rewritten or elected.forgotten is not None
    after = settled(before, elected.after, min_isr, ineligible=ineligible, rewritten=rewritten)
    return Change(after, elected.forgotten)


def elect(value: Replication, reachable: Collection[StoreId], min_isr: int, *, unclean: bool = False) -> Change:
    """Elect a leader by rule E1 for a partition that has none, or whose leader can't be reached.

    Raises ElectionNotNeeded, EligibleLeadersNotAvailable.
    """
    if value.leader is not None and value.leader in reachable:
        raise ElectionNotNeeded(f"store {value.leader} leads the partition and can be reached")
    change = with_leader(value, value, reachable, min_isr, unclean=unclean)
    if change.after.leader_epoch == value.leader_epoch:
        raise EligibleLeadersNotAvailable(
            f"a leader needs every record below the high watermark {value.high_watermark}; the replicas end at "
            f"{dict(zip(value.replicas, value.log_ends, strict=True))}, of them {sorted(reachable)} can be reached"
        )
    return change


def elect_store(
    value: Replication, store: StoreId, reachable: Collection[StoreId], min_isr: int, *, unclean: bool = False
) -> Change:
    """Make this store the leader: an operator asked for it, perhaps to bring the preferred leader back.

    While the present leader can be reached, its successor must have all of its records (rule E7). Raises
    IneligibleReplica, ElectionNotNeeded, PreferredLeaderNotAvailable, EligibleLeadersNotAvailable.
    """
    if store not in value.replicas:
        raise IneligibleReplica(
            f"store {store} has no replica of the partition, its replicas are on {list(value.replicas)}"
        )
    if store == value.leader:
        raise ElectionNotNeeded(f"store {store} leads the partition already")
    if store not in reachable:
        raise PreferredLeaderNotAvailable(f"store {store} can't be reached")
    if value.leader is not None and value.leader in reachable:
        _check_equal(value, store)
        return Change(settled(value, led_by(value, store).after, min_isr))
    if _clean_candidate(value, (store,)) is None and not unclean:
        raise EligibleLeadersNotAvailable(
            f"store {store} ends at offset {value.log_end(store)}, below the high watermark {value.high_watermark}: "
            "only an unclean election makes it the leader"
        )
    return with_leader(value, value, (store,), min_isr, unclean=unclean)


def take_over(value: Replication, holders: Collection[StoreId], min_isr: int) -> Replication:
    """Elect one of the holders of a write that did not reach the present leader, in the entry of that write (rule E8).

    Nobody watches the stores of an embedded cluster. So the old leader may be alive, and nothing may be forgotten.
    Raises NotEnoughReplicas.
    """
    for store in value.isr:
        if store in holders and store != value.leader and value.log_end(store) == value.next_offset:
            return settled(value, led_by(value, store).after, min_isr)
    raise NotEnoughReplicas(
        f"the write is not on the leader's store {value.leader}, and none of {sorted(holders)} is in sync up to "
        f"offset {value.next_offset}: only a person may elect a leader that lacks records (sparklog replica elect)"
    )


def _check_equal(value: Replication, store: StoreId) -> None:
    """Rule E7: the candidate is in sync and has every record that the living leader has."""
    if store not in value.isr or value.log_end(store) != value.next_offset:
        raise PreferredLeaderNotAvailable(
            f"store {value.leader} leads and lives; store {store} ends at offset {value.log_end(store)} of "
            f"{value.next_offset}, in sync are {list(value.isr)}: try again once it has caught up"
        )


def _clean_candidate(value: Replication, reachable: Collection[StoreId]) -> StoreId | None:
    """The first reachable member of the ISR, else of the ELR, else any reachable replica; never one below HW.

    The chain knows every LEO. So a replica at HW or above lacks no acknowledged record, however long it was away.
    Kafka's controller knows only which replicas were in sync, and so it stops at the ELR (KIP-966).
    """
    for store in (*value.isr, *value.elr, *value.replicas):
        if store in reachable and value.log_end(store) >= value.high_watermark:
            return store
    return None


def _longest(value: Replication, reachable: Collection[StoreId]) -> StoreId | None:
    """The reachable replica with the largest LEO, and so the largest epoch: all replicas are prefixes of one log."""
    candidates = [store for store in value.replicas if store in reachable]
    return max(candidates, key=value.log_end, default=None)


def _with_lost(lost: tuple[OffsetRange, ...], end: Offset, high_watermark: Offset) -> tuple[OffsetRange, ...]:
    """The lost ranges with [end, HW) added, ascending and disjoint."""
    if end >= high_watermark:
        return lost
    below = tuple(range_ for range_ in lost if range_.end < end)
    touched = [range_.start for range_ in lost if range_.start <= end <= range_.end]
    return (*below, OffsetRange(min([end, *touched]), high_watermark))
