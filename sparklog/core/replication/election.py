"""Elections: the choice of a leader among the replicas that may lead."""

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
from sparklog.core.replication.new_leader import led_by
from sparklog.core.replication.partition import Replication, ReplicationChange, settled
from sparklog.core.replication.reassignment import settled_ending_moves
from sparklog.core.types import StoreId


def with_leader(
    before: Replication,
    changed: Replication,
    reachable: Collection[StoreId],
    min_isr: int,
    *,
    ineligible: Collection[StoreId] = (),
    unclean: bool = False,
    rewritten: bool = False,
) -> ReplicationChange:
    """Settle `changed`, and elect another leader if its leader can't stay; if a move can end now, it ends.

    A leader that is in sync and reachable stays. A leader that is in sync but silent stays until another replica may
    lead. A leader that left the ISR does not stay: without a successor the partition is offline. The successor is a
    reachable replica with every committed record (rule E1). If there is none, `unclean` allows the reachable replica
    with the longest log. There is at most one election.

    `before`: the value before the change. `changed`: the value after it, not settled yet. `reachable`: the stores that
    may lead, neither fenced nor silent. `ineligible`: stores that can't be in the ELR, because they may have lost
    records. With `rewritten`, the version rises in any case.
    """
    leader = changed.leader if changed.leader in changed.isr else None
    changed = msgspec.structs.replace(changed, leader=leader)
    still = settled(before, changed, min_isr, ineligible=ineligible, rewritten=rewritten)
    if leader is not None and leader in reachable:
        return _with_move_ended(before, ReplicationChange(still), reachable, min_isr)
    candidate = _clean_candidate(still, reachable)
    isr = (*still.isr, candidate) if candidate is not None else ()
    if candidate is None and unclean:
        candidate = _longest(still, reachable)
        if candidate is not None:
            isr, ineligible = (candidate,), still.replicas
    if candidate is None:
        return _with_move_ended(before, ReplicationChange(still), reachable, min_isr)
    elected = led_by(msgspec.structs.replace(changed, isr=isr), candidate)
    rewritten = rewritten or elected.forgotten is not None
    after = settled(before, elected.after, min_isr, ineligible=ineligible, rewritten=rewritten)
    return _with_move_ended(before, ReplicationChange(after, elected.forgotten), reachable, min_isr)


def elect(
    value: Replication, reachable: Collection[StoreId], min_isr: int, *, unclean: bool = False
) -> ReplicationChange:
    """Elect a leader for a partition that has none, or whose leader can't be reached, by the rules of `with_leader`.

    Raises ElectionNotNeeded if the leader can be reached, and EligibleLeadersNotAvailable if no replica may lead.
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
) -> ReplicationChange:
    """Elect this store at an operator's request, for example to make the preferred leader lead again.

    While the present leader can be reached, the store must be in sync and have all of the leader's records (rule E7).
    Otherwise the store must have every committed record, except with `unclean`. Raises IneligibleReplica,
    ElectionNotNeeded, PreferredLeaderNotAvailable, EligibleLeadersNotAvailable.
    """
    if store not in value.replicas:
        raise IneligibleReplica(
            f"store {store} has no replica of the partition, its replicas are on {list(value.replicas)}"
        )
    if store == value.leader:
        raise ElectionNotNeeded(f"store {store} already leads the partition")
    if store not in reachable:
        raise PreferredLeaderNotAvailable(f"store {store} can't be reached")
    if value.leader is not None and value.leader in reachable:
        _check_equal(value, store)
        return ReplicationChange(settled(value, led_by(value, store).after, min_isr))
    if _clean_candidate(value, (store,)) is None and not unclean:
        raise EligibleLeadersNotAvailable(
            f"store {store} ends at offset {value.log_end(store)}, below the high watermark {value.high_watermark}: "
            "only an unclean election makes it the leader"
        )
    return with_leader(value, value, (store,), min_isr, unclean=unclean)


def take_over(value: Replication, holders: Collection[StoreId], min_isr: int) -> Replication:
    """Elect an in-sync holder of a write that did not reach the present leader, in the entry of that write (rule E8).

    The holder must have the whole log: in an embedded cluster no process watches the stores, so the old leader may be
    alive, and its records must not be forgotten. Raises NotEnoughReplicas.
    """
    for store in value.isr:
        if store in holders and store != value.leader and value.log_end(store) == value.next_offset:
            return settled(value, led_by(value, store).after, min_isr)
    raise NotEnoughReplicas(
        f"the write is not on the leader's store {value.leader}, and none of {sorted(holders)} is in sync up to "
        f"offset {value.next_offset}: only an operator may elect a leader that lacks records (sparklog replica elect)"
    )


def _check_equal(value: Replication, store: StoreId) -> None:
    """Raise PreferredLeaderNotAvailable unless the store is in sync and has every record of the leader (rule E7)."""
    if store not in value.isr or value.log_end(store) != value.next_offset:
        raise PreferredLeaderNotAvailable(
            f"store {value.leader} leads and can be reached; store {store} ends at offset {value.log_end(store)} of "
            f"{value.next_offset}, in sync are {list(value.isr)}: try again once it has caught up"
        )


def _with_move_ended(
    before: Replication, change: ReplicationChange, reachable: Collection[StoreId], min_isr: int
) -> ReplicationChange:
    """Return the change, with the move that is under way ended if it can end now.

    This never leads to a second election. The end of a move needs an election only if the move removes the leader. But
    `with_leader` elects a replica that the move removes only if no in-sync replica that the move keeps can be reached.
    In that case the move can't end yet.
    """
    after = change.after
    if not (after.adding or after.removing):
        return change
    silent = [store for store in after.replicas if store not in reachable]
    done = settled_ending_moves(before, after, min_isr, silent=silent)
    return change if done.adding or done.removing else ReplicationChange(done, change.forgotten)


def _clean_candidate(value: Replication, reachable: Collection[StoreId]) -> StoreId | None:
    """Return the reachable replica that leads next without a loss; None if there is none.

    Its LEO is at HW or above. Replicas in the ISR come first, then those in the ELR, then all others. A replica at HW
    or above lacks no acknowledged record, however long it was away, and the chain knows every LEO. Kafka's controller
    knows only which replicas were in sync, so it stops at the ELR (KIP-966).
    """
    for store in (*value.isr, *value.elr, *value.replicas):
        if store in reachable and store in value.whole:
            return store
    return None


def _longest(value: Replication, reachable: Collection[StoreId]) -> StoreId | None:
    """Return the reachable replica with the largest LEO, and so with the newest epoch; None if none is reachable."""
    candidates = [store for store in value.replicas if store in reachable]
    return max(candidates, key=value.log_end, default=None)
