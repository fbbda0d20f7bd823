"""Registers, fences and removes stores, and records their losses and whether their agents are up (KIP-631, KIP-841)."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import UNSET

from sparklog.core.commands import (
    AgentDown,
    AgentUp,
    Append,
    FenceStore,
    MoveRecoveryPoint,
    RegisterStore,
    RemoveStore,
    ReportLoss,
)
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.decide.append import partition_name
from sparklog.core.decide.changes import Transition, empty_end, held_end, of_each, of_store, reachable_stores
from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    Conflict,
    DuplicateBrokerRegistration,
    InvalidInput,
    NotEnoughReplicas,
    OffsetOutOfRange,
    StaleBrokerEpoch,
)
from sparklog.core.lookup import existing_partition, registered_store
from sparklog.core.names.store_addresses import check_store_address
from sparklog.core.names.store_ids import check_store_ids, check_zone
from sparklog.core.records import (
    AgentChanged,
    PartitionsChanged,
    Record,
    RecoveryPointMoved,
    StoreFenced,
    StoreRegistered,
    StoreRemoved,
)
from sparklog.core.replication.partition import Replication, ReplicationChange
from sparklog.core.replication.store_changes import fence, lose, reachable_changed
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import Offset, StoreId, TopicPartition


def decide_register_store(state: ClusterState, command: RegisterStore) -> tuple[Record, ...]:
    """Register a new store, or a fenced one that is back with its data. The store may then lead partitions that have no
    leader.
    """
    new = command.store
    known = state.stores.get(new.store)
    check_zone(new.zone)
    check_store_address(new.url)
    gone = command.announced_to.items() - state.registrations().items()
    if gone:
        raise NotEnoughReplicas(
            f"store {new.store} was announced to {', '.join(sorted(store for store, _ in gone))}, and one of these was "
            "fenced, removed or registered again meanwhile: add the store again"
        )
    _check_incarnation(state, new.store, new.url, new.incarnation)
    if command.next_registration not in (None, state.next_registration):
        raise NotEnoughReplicas(f"another store was registered or fenced while {new.store} was announced: add it again")
    registered = StoreRegistered(new.store, state.next_registration, new.url, new.incarnation, new.zone)
    if known is None:
        check_store_ids([*state.stores, new.store])
        return (registered,)
    if known.incarnation != new.incarnation:
        raise DuplicateBrokerRegistration(
            f"store {new.store} is registered with INCARNATION {known.incarnation}, found {new.incarnation}: if it was "
            "wiped, report its loss; a different store needs a different id"
        )
    if not known.fenced:
        raise DuplicateBrokerRegistration(f"store {new.store} is already registered, and not fenced")
    return (registered, *_search_leaders(state, new.store, [*reachable_stores(state), new.store]))


def decide_fence_store(state: ClusterState, command: FenceStore) -> tuple[Record, ...]:
    """Fence a store: it leaves every ISR. Where it leads, another replica is elected if one may lead."""
    store = registered_store(state, command.store)
    if store.fenced:
        return ()
    reachable = reachable_stores(state, but=store.store)

    def fenced(key: TopicPartition, before: Replication, config: TopicConfig) -> ReplicationChange:
        unclean = config.unclean_leader_election_enable
        return fence(before, store.store, reachable, config.min_insync_replicas, unclean=unclean)

    changes = of_store(state, store.store, fenced)
    return (StoreFenced(store.store, state.next_registration), *changes)


def decide_remove_store(state: ClusterState, command: RemoveStore) -> tuple[Record, ...]:
    """Forget a store that has no replicas."""
    store = registered_store(state, command.store)
    replicas = sum(store.store in partition.replication.replicas for partition in state.partitions.values())
    if replicas:
        raise Conflict(
            f"store {store.store} has {counted(replicas, 'replica')}: move them to other stores first "
            f"(sparklog replica move --off {store.store})"
        )
    if not state.registrations().keys() - {store.store}:
        raise Conflict(f"store {store.store} is the only one of the cluster that is not fenced")
    copies = effective_cluster(state.config).metadata_copies if state.config else 0
    if copies and not command.others.items() & state.registrations().items():
        again = sorted(command.others.keys() & state.registrations().keys())
        if again:
            raise Conflict(f"store {', '.join(again)} was registered again meanwhile: remove store {store.store} again")
        raise Conflict(
            f"store {store.store} is the last one that may have copies of the metadata (metadata.copies={copies}): add "
            "another store first"
        )
    return (StoreRemoved(store.store),)


def decide_report_loss(state: ClusterState, command: ReportLoss) -> tuple[Record, ...]:
    """Register the store under a new number, and lower the log ends of its replicas to what the store still holds."""
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
                f"store {store.store} reports {key} up to {replica.end}, the log ends at {partition.next_offset}"
            )
        held[key] = held_end(state, key, replica.end)
    reachable = [*reachable_stores(state, but=store.store), store.store]

    def lost(key: TopicPartition, before: Replication, config: TopicConfig) -> ReplicationChange:
        end = held.get(key, Offset(0) if wiped else None)
        min_isr, unclean = config.min_insync_replicas, config.unclean_leader_election_enable
        if end is None or (end >= before.log_end(store.store) and not wiped):
            return reachable_changed(before, reachable, min_isr, unclean=unclean)
        end = max(end, empty_end(state, key))
        return lose(before, store.store, end, reachable, min_isr, unclean=unclean)

    changes = of_store(state, store.store, lost)
    if command.harmless:
        _check_harmless(state, store.store, held, changes)
    again = StoreRegistered(store.store, state.next_registration, store.url, command.incarnation, store.zone)
    return (again, *changes)


def decide_move_recovery_point(state: ClusterState, command: MoveRecoveryPoint) -> tuple[Record, ...]:
    """Raise the recovery point of a store. Returns () if it is already there or above.

    Raises Conflict if the store got a replica after its objects were listed: the objects copied for it were not read.
    """
    store = registered_store(state, command.store)
    _check_registration(store, command.registration)
    if not 0 <= command.to <= state.next_object_number:
        raise InvalidInput(
            f"the recovery point of store {store.store} can rise to {state.next_object_number}, the number of the next "
            f"object, wanted {command.to}"
        )
    if not store.grew_at <= command.n <= state.n:
        raise Conflict(
            f"store {store.store} got a replica with entry {store.grew_at}, its objects were read as of entry "
            f"{command.n}: read the new ones first"
        )
    return (RecoveryPointMoved(store.store, command.to),) if command.to > store.recovery_point else ()


def decide_agent_up(state: ClusterState, command: AgentUp) -> tuple[Record, ...]:
    """Record that the store can be reached: it may lead partitions that have no leader."""
    store = _with_agent(state, command)
    if store.agent_up:
        return ()
    changes = _search_leaders(state, store.store, [*reachable_stores(state, but=store.store), store.store])
    return (AgentChanged(store.store, up=True), *changes)


def decide_agent_down(state: ClusterState, command: AgentDown) -> tuple[Record, ...]:
    """Record that the store can't be reached. Where it leads, another replica is elected if one may lead.

    The store stays in the ISR until it lags. With `stopped`, the agent was stopped on purpose: the store still counts
    as reachable, and there is no election, which could give up records that no follower has yet.
    """
    store = _with_agent(state, command)
    if command.stopped:
        return (AgentChanged(store.store, up=None),) if store.agent_up is not None else ()
    if store.agent_up is False:
        return ()
    changes = _search_leaders(state, store.store, reachable_stores(state, but=store.store))
    return (AgentChanged(store.store, up=False), *changes)


def leaders_for(state: ClusterState, command: Append, records: Collection[Record]) -> tuple[PartitionsChanged, ...]:
    """Elect leaders for leaderless partitions, now that a write has reached stores that were silent.

    The AgentChanged records in `records` name these stores. The partitions of the write itself stay as they are.
    """
    back = [record.store for record in records if isinstance(record, AgentChanged)]
    reachable = [*reachable_stores(state), *back]
    written = {TopicPartition(slice_.topic_id, slice_.partition) for slice_ in command.slices}
    leaderless = sorted(
        key
        for key, partition in state.partitions.items()
        if partition.replication.leader is None and key not in written
    )
    return of_each(state, [(key, key) for key in leaderless], _search_among(reachable))


def _check_harmless(
    state: ClusterState, store: StoreId, damaged: Collection[TopicPartition], changes: Collection[PartitionsChanged]
) -> None:
    """Raise NotEnoughReplicas unless a loss that was reported as harmless is harmless. `changes`: its effects.

    That means for each partition in `damaged`: it has a leader after the loss, no slice of it is forgotten, and another
    store that can be reached has everything that this store had before the loss, according to the chain.
    """
    for change in (change for record in changes for change in record.changes):
        if change.topic_partition not in damaged:
            continue
        before = state.partitions[change.topic_partition].replication
        held = before.log_end(store)
        others = [
            other
            for other in before.replicas
            if other != store and state.stores[other].reachable and before.log_end(other) >= held
        ]
        if not others or change.leader is None or change.forgotten_from is not UNSET:
            raise NotEnoughReplicas(
                f"{partition_name(state, change.topic_partition)} needs a replica beside store {store} that has "
                f"everything up to offset {held}, while store {store} is repaired: the replicas end at "
                f"{dict(zip(before.replicas, before.log_ends, strict=True))}"
            )


def _with_agent(state: ClusterState, command: AgentUp | AgentDown) -> Store:
    store = registered_store(state, command.store)
    _check_registration(store, command.registration)
    if store.fenced:
        raise StaleBrokerEpoch(f"store {store.store} is fenced: register it again before its agent continues")
    return store


def _check_incarnation(state: ClusterState, store: StoreId, url: str, incarnation: str) -> None:
    """Raise DuplicateBrokerRegistration if another id is registered with this INCARNATION: it is the same store.

    A single copy of a record would then count as two replicas.
    """
    for other in state.stores.values():
        if other.incarnation == incarnation and other.store != store:
            raise DuplicateBrokerRegistration(
                f"the store at {url} with INCARNATION {incarnation} is registered as {other.store}, not as {store}"
            )


def _check_registration(store: Store, registration: int) -> None:
    if store.registration != registration:
        raise StaleBrokerEpoch(
            f"store {store.store} is registered as {store.registration}, its agent reports for {registration}"
        )


def _search_leaders(state: ClusterState, store: StoreId, reachable: list[StoreId]) -> tuple[PartitionsChanged, ...]:
    return of_store(state, store, _search_among(reachable))


def _search_among(reachable: Collection[StoreId]) -> Transition:
    def searched(key: TopicPartition, before: Replication, config: TopicConfig) -> ReplicationChange:
        unclean = config.unclean_leader_election_enable
        return reachable_changed(before, reachable, config.min_insync_replicas, unclean=unclean)

    return searched
