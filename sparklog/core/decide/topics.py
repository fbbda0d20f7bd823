"""Creates and alters the cluster; creates, alters, promotes and deletes topics; adds partitions (N-03)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sparklog.core.commands import (
    AddPartitions,
    AlterCluster,
    AlterTopic,
    CreateCluster,
    CreateTopic,
    DeleteTopic,
    NewStore,
    PromoteTopic,
)
from sparklog.core.config.cluster_config import (
    effective_cluster,
    merge_cluster_config,
    parse_cluster_config,
    topic_defaults,
)
from sparklog.core.config.topic_config import TopicConfig, effective, merge_topic_config, parse_topic_config
from sparklog.core.decide.append import OFFSETS_END
from sparklog.core.decide.changes import delay_begins_ms, homes, in_records, of_each, reachable_stores, silent_stores
from sparklog.core.decide.groups import rebalanced
from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    ClusterAlreadyExists,
    Conflict,
    DuplicateBrokerRegistration,
    InvalidInput,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    PolicyViolation,
    TopicAlreadyExists,
)
from sparklog.core.groups.membership import TopicSize
from sparklog.core.lookup import existing_topic
from sparklog.core.names.store_addresses import check_store_address
from sparklog.core.names.store_ids import check_store_ids, check_zone
from sparklog.core.names.topic_names import MAX_LENGTH, check_no_collision, check_not_internal, check_topic_name
from sparklog.core.placement.assignment import Assignment, assign
from sparklog.core.records import (
    At,
    ClusterAltered,
    ClusterCreated,
    PartitionsAdded,
    PartitionsChanged,
    Record,
    StoreRegistered,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
    TopicPromoted,
)
from sparklog.core.replication.partition import Replication, ReplicationChange, created
from sparklog.core.replication.partition_change import PartitionChange, change_from
from sparklog.core.replication.promotion import promoted
from sparklog.core.replication.store_changes import min_isr_changed, reachable_changed
from sparklog.core.state import ClusterState
from sparklog.core.types import KafkaTopic, Offset, PartitionIndex, TopicId, TopicPartition

MAX_PARTITIONS = 100_000  # of one topic: their assignment must fit into one entry


def decide_create_cluster(state: ClusterState, command: CreateCluster) -> tuple[Record, ...]:
    """Return the records of entry 0: the cluster and its first stores."""
    if state.n >= 0:
        raise ClusterAlreadyExists(
            f"the address already has a cluster, {state.chain_id}: connect to it, or choose another address"
        )
    if not command.stores:
        raise InvalidInput("a cluster needs at least one store, found none")
    check_store_ids(store.store for store in command.stores)
    for store in command.stores:
        check_zone(store.zone)
        check_store_address(store.url)
    _check_lives(command.stores)
    created: Record = ClusterCreated(command.chain_id, parse_cluster_config(command.config))
    registered = (
        StoreRegistered(store.store, number, store.url, store.incarnation, store.zone)
        for number, store in enumerate(command.stores)
    )
    return (created, *registered)


def decide_create_topic(state: ClusterState, command: CreateTopic) -> tuple[Record, ...]:
    """Create a topic, with its partitions spread over the stores or assigned by hand."""
    check_topic_name(command.name)
    check_not_internal(command.name)
    if command.name in state.topic_ids:
        raise TopicAlreadyExists(f"topic {command.name} exists")
    check_no_collision(command.name, state.topic_ids)
    config = parse_topic_config(dict(command.config))
    if command.assignment is not None:
        if command.partitions is not None or command.replication_factor is not None:
            raise InvalidReplicaAssignment(
                "a manual assignment already gives the partitions and the replication factor"
            )
        _check_assignment(state, command.assignment)
        assignment = command.assignment
    else:
        defaults = effective_cluster(state.config)
        partitions = defaults.num_partitions if command.partitions is None else command.partitions
        factor = command.replication_factor
        factor = defaults.default_replication_factor if factor is None else factor
        assignment = _spread(state, state.next_topic_id, partitions, factor)
    topic_id = TopicId(state.next_topic_id)
    if command.mirror_of is not None:
        _check_mirror(command.mirror_of)
    return (
        TopicCreated(topic_id, command.name, config, assignment, command.mirror_of),
        *_first_leaders(state, topic_id, 0, assignment),
        *rebalanced(state, command.name, TopicSize(topic_id, len(assignment))),
    )


def decide_alter_cluster(state: ClusterState, command: AlterCluster) -> tuple[Record, ...]:
    """Set and remove keys of the cluster's config. A new min.insync.replicas may move HW, and change the ELR."""
    changes: dict[str, object] = {**command.changed, **dict.fromkeys(command.removed)}
    config = merge_cluster_config(state.config, changes)
    defaults, silent = topic_defaults(config), silent_stores(state)
    altered = [
        (partition, effective(topic.config, defaults).min_insync_replicas)
        for topic in state.topics.values()
        for partition in state.partitions_of(topic)
    ]
    partitions = [
        (TopicPartition(partition.topic_id, partition.partition), min_isr)
        for partition, min_isr in altered
        if min_isr != state.topic_config(state.topics[partition.topic_id]).min_insync_replicas
    ]

    def with_new_min_isr(min_isr: int, replicas: Replication, _: TopicConfig) -> ReplicationChange | Replication:
        return min_isr_changed(replicas, min_isr, silent=silent)

    return (ClusterAltered(config), *(of_each(state, partitions, with_new_min_isr) if partitions else ()))


def decide_alter_topic(state: ClusterState, command: AlterTopic) -> tuple[Record, ...]:
    """Set and remove keys of the topic's config, and change its partitions as the new values require.

    A new min.insync.replicas may move HW, and change the ELR. If unclean elections become allowed, partitions without a
    leader may get one.
    """
    topic = existing_topic(state, command.topic_id)
    changes: dict[str, object] = {**command.changed, **dict.fromkeys(command.removed)}
    altered = msgspec.structs.replace(topic, config=merge_topic_config(topic.config, changes))
    before, config = state.topic_config(topic), state.topic_config(altered)
    reachable, silent = reachable_stores(state), silent_stores(state)
    becomes_unclean = config.unclean_leader_election_enable and not before.unclean_leader_election_enable

    def with_new_min_isr(_: None, replicas: Replication, __: TopicConfig) -> ReplicationChange | Replication:
        if becomes_unclean and replicas.leader is None:
            return reachable_changed(replicas, reachable, config.min_insync_replicas, unclean=True)
        return min_isr_changed(replicas, config.min_insync_replicas, silent=silent)

    record = TopicAltered(topic.topic_id, altered.config)
    if config.min_insync_replicas == before.min_insync_replicas and not becomes_unclean:
        return (record,)
    partitions = [
        (TopicPartition(partition.topic_id, partition.partition), None) for partition in state.partitions_of(topic)
    ]
    return (record, *of_each(state, partitions, with_new_min_isr))


def decide_add_partitions(state: ClusterState, command: AddPartitions) -> tuple[Record, ...]:
    """Add partitions to a topic. Existing records stay where they are, but later records with their keys may not."""
    topic = existing_topic(state, command.topic_id)
    if command.total <= topic.partitions:
        raise InvalidPartitions(
            f"topic {topic.name} has {counted(topic.partitions, 'partition')}; "
            f"they can only grow, found {command.total}"
        )
    _check_count(command.total)
    more = command.total - topic.partitions
    existing = tuple(partition.replication.target for partition in state.partitions_of(topic))
    factor = len(existing[0])
    if command.assignment is not None:
        _check_assignment(state, command.assignment)
        if len(command.assignment) != more:
            raise InvalidReplicaAssignment(
                f"wanted an assignment of {counted(more, 'new partition')}, found one of {len(command.assignment)}"
            )
        if len(command.assignment[0]) != factor:
            raise InvalidReplicaAssignment(
                f"each partition of topic {topic.name} has {counted(factor, 'replica')}, the assignment has "
                f"{len(command.assignment[0])}"
            )
        assignment = command.assignment
    else:
        assignment = _spread(state, topic.topic_id, more, factor, existing)
    first = PartitionIndex(topic.partitions)
    added = PartitionsAdded(topic.topic_id, first, assignment)
    return (
        added,
        *_first_leaders(state, topic.topic_id, first, assignment),
        *rebalanced(state, topic.name, TopicSize(topic.topic_id, command.total)),
    )


def decide_delete_topic(state: ClusterState, command: DeleteTopic, at: At) -> tuple[Record, ...]:
    """Forget the topic at once; its objects are deleted after `file.delete.delay.ms`.

    Raises Conflict if the command has `if_never_written` and the topic has ever had records.
    """
    topic = existing_topic(state, command.topic_id)
    if command.if_never_written and any(partition.next_offset for partition in state.partitions_of(topic)):
        raise Conflict(f"wanted to delete topic {topic.name} if nothing was ever written to it, found records")
    delete_after_ms = delay_begins_ms(state, at) + state.topic_config(topic).file_delete_delay_ms
    return (TopicDeleted(topic.topic_id, delete_after_ms), *rebalanced(state, topic.name, None))


def decide_promote_topic(state: ClusterState, command: PromoteTopic) -> tuple[Record, ...]:
    """Turn a mirror topic into an ordinary one: each partition continues at its end, in a new leader epoch.

    Raises PolicyViolation if the topic is not mirrored, InvalidInput unless there is one end for each partition, and
    the errors of `promoted` for the first partition that refuses.
    """
    topic = existing_topic(state, command.topic_id)
    if topic.mirror_of is None:
        raise PolicyViolation(f"wanted a mirror topic to promote, found {topic.name}, which mirrors no Kafka topic")
    if len(command.ends) != topic.partitions:
        raise InvalidInput(
            f"topic {topic.name} has {counted(topic.partitions, 'partition')}: wanted an end for each of them, found "
            f"{len(command.ends)}"
        )
    if max(command.ends) > OFFSETS_END:
        raise InvalidInput(f"an offset is at most {OFFSETS_END}, found {max(command.ends)}")

    def with_end(end: Offset, replicas: Replication, config: TopicConfig) -> Replication:
        return promoted(replicas, end, config.min_insync_replicas)

    keys = (TopicPartition(topic.topic_id, PartitionIndex(index)) for index in range(topic.partitions))
    ends = list(zip(keys, command.ends, strict=True))
    return (TopicPromoted(topic.topic_id), *of_each(state, ends, with_end, together=True))


def _check_mirror(source: KafkaTopic) -> None:
    check_topic_name(source.topic)
    for what, text in (("cluster id", source.cluster_id), ("topic id", source.topic_id)):
        if not 1 <= len(text) <= MAX_LENGTH or not text.isprintable() or text != text.strip():
            raise InvalidInput(
                f"a mirror topic names the {what} of its Kafka topic: wanted 1 to {MAX_LENGTH} printable characters "
                f"without a space at either end, found {text!r}"
            )


def _check_count(partitions: int) -> None:
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidPartitions(f"a topic has 1 to {MAX_PARTITIONS} partitions, found {partitions}")


def _check_lives(stores: Sequence[NewStore]) -> None:
    """Raise DuplicateBrokerRegistration if two stores have one INCARNATION: they are one store under two ids."""
    seen: dict[str, NewStore] = {}
    for store in stores:
        other = seen.setdefault(store.incarnation, store)
        if other is not store:
            raise DuplicateBrokerRegistration(
                f"each id needs a store of its own, found INCARNATION {store.incarnation} at {other.url} "
                f"({other.store}) and at {store.url} ({store.store})"
            )


def _spread(
    state: ClusterState, topic_id: int, partitions: int, replication_factor: int, existing: Assignment = ()
) -> Assignment:
    _check_count(len(existing) + partitions)
    usable = homes(state)
    if replication_factor < 1:
        raise InvalidReplicationFactor(f"wanted a replication factor of at least 1, found {replication_factor}")
    if replication_factor > len(usable):
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor} needs as many stores, the cluster has {len(usable)}"
            f"{' that are not fenced' if len(usable) < len(state.stores) else ''}: "
            f"{', '.join(home.store for home in usable)}"
        )
    return assign(usable, partitions, replication_factor, topic_id, existing)


def _first_leaders(
    state: ClusterState, topic_id: TopicId, first: int, assignment: Assignment
) -> tuple[PartitionsChanged, ...]:
    """Return the changes that elect another leader for new partitions whose preferred leader can't be reached.

    `assignment`: the replicas of the partitions `first`, `first + 1`, … If none of a partition's replicas can be
    reached, the preferred one leads.
    """
    reachable = reachable_stores(state)
    changes: list[PartitionChange] = []
    for index, replicas in enumerate(assignment, first):
        if replicas[0] not in reachable:
            empty, key = created(replicas), TopicPartition(topic_id, PartitionIndex(index))
            # The ISR is every replica: min ISR does not affect the choice of the leader, and nothing is written yet.
            change = change_from(empty, reachable_changed(empty, reachable, 1).after, key)
            changes += [] if change is None else [change]
    return in_records(changes)


def _check_assignment(state: ClusterState, assignment: Assignment) -> None:
    _check_count(len(assignment))
    factor, stores = len(assignment[0]), state.registrations()
    for partition, replicas in enumerate(assignment):
        unknown = [store for store in replicas if store not in stores]
        if unknown or len(set(replicas)) != len(replicas) or len(replicas) != factor or not replicas:
            raise InvalidReplicaAssignment(
                f"partition {partition} needs {factor or 1} different stores of {list(stores)}, found {list(replicas)}"
            )
