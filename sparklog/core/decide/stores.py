"""Stores: registered, fenced, lost in part, back, removed; and whether their agents are at work (KIP-631, KIP-841)."""

from __future__ import annotations

from collections.abc import Collection

from sparklog.core.commands import AgentDown, AgentUp, Append, FenceStore, RegisterStore, RemoveStore, ReportLoss
from sparklog.core.config.topic import TopicConfig
from sparklog.core.decide.append import existing_partition
from sparklog.core.decide.changes import Transition, empty_end, held_end, of_each, of_store, reachable_stores
from sparklog.core.errors import (
    BrokerIdNotRegistered,
    Conflict,
    DuplicateBrokerRegistration,
    OffsetOutOfRange,
    StaleBrokerEpoch,
)
from sparklog.core.readable import counted
from sparklog.core.records import (
    AgentChanged,
    At,
    PartitionsChanged,
    Record,
    StoreFenced,
    StoreRegistered,
    StoreRemoved,
)
from sparklog.core.replication.partition import Change, Replication
from sparklog.core.replication.store_changes import fence, lose, reachable_changed
from sparklog.core.state import ClusterState, Store
from sparklog.core.store_ids import check_store_ids, check_zone
from sparklog.core.types import Offset, StoreId, TopicPartition


def decide_register_store(state: ClusterState, command: RegisterStore, at: At) -> tuple[Record, ...]:
    """A new store, or one that was fenced and has what it had: where nobody leads, it may."""
    new = command.store
    known = state.stores.get(new.store)
    check_zone(new.zone)
    _check_incarnation(state, new.store, new.url, new.incarnation)
    registered = StoreRegistered(new.store, state.next_registration, new.url, new.incarnation, new.zone)
    if known is None:
        check_store_ids([*state.stores, new.store])
        return (registered,)
    if known.incarnation != new.incarnation:
        raise DuplicateBrokerRegistration(
            f"store {new.store} is registered with INCARNATION {known.incarnation}, found {new.incarnation}: if it was "
            "wiped, its loss is to be reported; another store needs another id"
        )
    if not known.fenced:
        raise DuplicateBrokerRegistration(f"store {new.store} is registered already, and not fenced")
    return (registered, *_search_leaders(state, at, new.store, [*reachable_stores(state), new.store]))


def decide_fence_store(state: ClusterState, command: FenceStore, at: At) -> tuple[Record, ...]:
    """The store leaves every ISR, and others lead where it led."""
    store = registered_store(state, command.store)
    if store.fenced:
        return ()
    reachable = reachable_stores(state, but=store.store)

    def fenced(key: TopicPartition, before: Replication, config: TopicConfig) -> Change:
        unclean = config.unclean_leader_election_enable
        return fence(before, store.store, reachable, config.min_insync_replicas, unclean=unclean)

    changes = of_store(state, at, store.store, fenced)
    return (StoreFenced(store.store, state.next_registration), *changes)


def decide_remove_store(state: ClusterState, command: RemoveStore) -> tuple[Record, ...]:
    """A store without replicas is forgotten."""
    store = registered_store(state, command.store)
    replicas = sum(store.store in partition.replication.replicas for partition in state.partitions.values())
    if replicas:
        raise Conflict(
            f"store {store.store} has {counted(replicas, 'replica')}: move them to other stores first "
            f"(sparklog replica move --off {store.store})"
        )
    if len(state.stores) == 1:
        raise Conflict(f"store {store.store} is the only one of the cluster")
    return (StoreRemoved(store.store),)


def decide_report_loss(state: ClusterState, command: ReportLoss, at: At) -> tuple[Record, ...]:
    """The store is registered under a new number, and its log ends are where they really are."""
    store = registered_store(state, command.store)
    _check_registration(store, command.registration)
    _check_incarnation(state, store.store, store.url, command.incarnation)
    wiped = command.incarnation != store.incarnation
    held: dict[TopicPartition, Offset] = {}
    for replica in command.held:
        key = TopicPartition(replica.topic_id, replica.partition)
        partition = existing_partition(state, key)
        if not 0 <= replica.end <= partition.next_offset:
            raise OffsetOutOfRange(
                f"{store.store} is said to hold {key} up to {replica.end} of {partition.next_offset}"
            )
        held[key] = held_end(state, key, replica.end)
    reachable = [*reachable_stores(state, but=store.store), store.store]

    def lost(key: TopicPartition, before: Replication, config: TopicConfig) -> Change:
        end = held.get(key, Offset(0) if wiped else None)
        min_isr, unclean = config.min_insync_replicas, config.unclean_leader_election_enable
        if end is None or (end >= before.log_end(store.store) and not wiped):
            return reachable_changed(before, reachable, min_isr, unclean=unclean)
        end = max(end, empty_end(state, key))
        return lose(before, store.store, end, reachable, min_isr, unclean=unclean)

    changes = of_store(state, at, store.store, lost)
    again = StoreRegistered(store.store, state.next_registration, store.url, command.incarnation, store.zone)
    return (again, *changes)


def decide_agent_up(state: ClusterState, command: AgentUp, at: At) -> tuple[Record, ...]:
    """The store can be reached: where nobody leads, it may."""
    store = _with_agent(state, command)
    if store.agent_up:
        return ()
    changes = _search_leaders(state, at, store.store, [*reachable_stores(state, but=store.store), store.store])
    return (AgentChanged(store.store, up=True), *changes)


def decide_agent_down(state: ClusterState, command: AgentDown, at: At) -> tuple[Record, ...]:
    """The store can't be reached: where it leads, another replica does if it may. It stays in sync until it lags.

    An agent that was stopped starts no election: that could forget what no follower has yet.
    """
    store = _with_agent(state, command)
    if command.stopped:
        return (AgentChanged(store.store, up=None),) if store.agent_up is not None else ()
    if store.agent_up is False:
        return ()
    changes = _search_leaders(state, at, store.store, reachable_stores(state, but=store.store))
    return (AgentChanged(store.store, up=False), *changes)


def leaders_for(
    state: ClusterState, command: Append, records: Collection[Record], at: At
) -> tuple[PartitionsChanged, ...]:
    """Leaders where nobody leads, now that a write has reached silent stores.

    Nobody is deposed, and nothing changes in the partitions of the write itself.
    """
    back = [record.store for record in records if isinstance(record, AgentChanged)]
    reachable = [*reachable_stores(state), *back]
    written = {TopicPartition(slice_.topic_id, slice_.partition) for slice_ in command.slices}
    led_by_nobody = sorted(
        key
        for key, partition in state.partitions.items()
        if partition.replication.leader is None and key not in written
    )
    return of_each(state, at, [(key, key) for key in led_by_nobody], _search_among(reachable))


def registered_store(state: ClusterState, store: StoreId) -> Store:
    """The store of this id. Raises BrokerIdNotRegistered."""
    known = state.stores.get(store)
    if known is None:
        raise BrokerIdNotRegistered(f"wanted store {store!r}, the cluster has {', '.join(sorted(state.stores))}")
    return known


def _with_agent(state: ClusterState, command: AgentUp | AgentDown) -> Store:
    store = registered_store(state, command.store)
    _check_registration(store, command.registration)
    if store.fenced:
        raise StaleBrokerEpoch(f"store {store.store} is fenced: it is to be registered again before its agent works")
    return store


def _check_incarnation(state: ClusterState, store: StoreId, url: str, incarnation: str) -> None:
    """Refuse one place as two stores: what is there once would count as two replicas."""
    for other in state.stores.values():
        if other.incarnation == incarnation and other.store != store:
            raise DuplicateBrokerRegistration(
                f"the store at {url} with INCARNATION {incarnation} is registered as {other.store}, not as {store}"
            )


def _check_registration(store: Store, registration: int) -> None:
    if store.registration != registration:
        raise StaleBrokerEpoch(
            f"store {store.store} is registered as {store.registration}, its agent speaks for {registration}"
        )


def _search_leaders(
    state: ClusterState, at: At, store: StoreId, reachable: list[StoreId]
) -> tuple[PartitionsChanged, ...]:
    return of_store(state, at, store, _search_among(reachable))


def _search_among(reachable: Collection[StoreId]) -> Transition:
    def searched(key: TopicPartition, before: Replication, config: TopicConfig) -> Change:
        unclean = config.unclean_leader_election_enable
        return reachable_changed(before, reachable, config.min_insync_replicas, unclean=unclean)

    return searched
