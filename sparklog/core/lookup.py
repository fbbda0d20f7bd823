"""Look up topics, partitions, stores and groups in a state, by name or id. Most errors list what exists."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sparklog.core.config.key import did_you_mean, shown
from sparklog.core.describe.readable import numbered
from sparklog.core.errors import BrokerIdNotRegistered, GroupIdNotFound, UnknownTopicOrPartition
from sparklog.core.groups.membership import ConsumerGroup
from sparklog.core.state import ClusterState, Partition, Store, Topic
from sparklog.core.types import StoreId, TopicId, TopicPartition


def topic_of(state: ClusterState, name: str, *, advice: str = "") -> Topic:
    """Return the topic of this name. Raises UnknownTopicOrPartition; for `advice` see `unknown_topic`."""
    topic = state.topic_named(name)
    if topic is None:
        raise unknown_topic(name, state.topic_ids, advice=advice)
    return topic


def unknown_topic(name: str, topics: Iterable[str], *, advice: str = "") -> UnknownTopicOrPartition:
    """An error that lists the topics, and suggests the one most like `name`; if none is like it, it gives `advice`."""
    known = sorted(topics)
    listed = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
    hint = did_you_mean(name, known) or advice
    return UnknownTopicOrPartition(f"wanted topic {shown(name)}, the cluster has {listed or 'no topics'}{hint}")


def existing_topic(state: ClusterState, topic_id: TopicId) -> Topic:
    """Return the topic of this id. Raises UnknownTopicOrPartition."""
    topic = state.topics.get(topic_id)
    if topic is None:
        raise UnknownTopicOrPartition(
            f"topic id {topic_id} is not in the cluster: the topic was deleted, or created again under another id"
        )
    return topic


def partition_of(state: ClusterState, topic: Topic, partition: int) -> Partition:
    """Return partition number `partition` of the topic. Raises UnknownTopicOrPartition."""
    existing = state.partition(topic.topic_id, partition)
    if existing is None:
        raise UnknownTopicOrPartition(
            f"wanted partition {partition} of topic {topic.name}, it has {numbered(topic.partitions)}"
        )
    return existing


def existing_partition(state: ClusterState, topic_partition: TopicPartition) -> Partition:
    """Return the partition. Raises UnknownTopicOrPartition."""
    partition = state.partitions.get(topic_partition)
    if partition is None:
        topic = state.topics.get(topic_partition.topic_id)
        actual = (
            f"topic id {topic_partition.topic_id} is not in the cluster (the topic was deleted, or created again)"
            if topic is None
            else f"topic {topic.name} has {numbered(topic.partitions)}"
        )
        raise UnknownTopicOrPartition(f"wanted partition {topic_partition.partition}, {actual}")
    return partition


def chosen_partitions(state: ClusterState, topic: Topic, chosen: Collection[int]) -> list[Partition]:
    """Return the partitions with these numbers, or all if `chosen` is empty. Raises UnknownTopicOrPartition."""
    return [partition_of(state, topic, number) for number in chosen] if chosen else state.partitions_of(topic)


def registered_store(state: ClusterState, store: StoreId) -> Store:
    """Return the store of this id. Raises BrokerIdNotRegistered."""
    known = state.stores.get(store)
    if known is None:
        raise BrokerIdNotRegistered(f"wanted store {shown(store)}, the cluster has {', '.join(sorted(state.stores))}")
    return known


def existing_group(state: ClusterState, name: str) -> ConsumerGroup:
    """Return the group of this name. Raises GroupIdNotFound."""
    group = state.groups.get(name)
    if group is None:
        raise GroupIdNotFound(f"wanted group {name[:80]}, found no group of this name among {len(state.groups)}")
    return group
