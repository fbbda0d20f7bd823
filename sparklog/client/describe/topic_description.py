"""Describes a topic for `Cluster.describe` and `sparklog topic describe`: its partitions and its effective config."""

from __future__ import annotations

import msgspec

from sparklog.core.config.cluster_config import topic_defaults
from sparklog.core.config.key import text_of
from sparklog.core.config.topic_config import topic_values
from sparklog.core.describe.readable import amount, counted, one_line_repr
from sparklog.core.lookup import topic_of
from sparklog.core.state import ClusterState, Partition


class TopicDescription(msgspec.Struct, frozen=True):
    """The description of a topic: its partitions and config.

    `config` maps each key to its effective value and the value's origin: "topic", "cluster" or "default".
    """

    name: str
    topic_id: int
    created_ms: int
    partitions: tuple[Partition, ...]
    config: dict[str, tuple[str, str]]
    records: int  # records that can be read

    def __repr__(self) -> str:
        count = counted(len(self.partitions), "partition")
        return one_line_repr("Topic", self.name, count, counted(self.records, "record"), amount(self.size_bytes))

    @property
    def size_bytes(self) -> int:
        """Total size of the topic's batches in bytes, counting each batch once, however many replicas there are."""
        return sum(partition.size_bytes for partition in self.partitions)


def describe_topic(state: ClusterState, name: str) -> TopicDescription:
    """Describe the topic `name` as of this state. Raises UnknownTopicOrPartition."""
    topic = topic_of(state, name)
    partitions = tuple(state.partitions_of(topic))
    values = topic_values(topic.config, topic_defaults(state.config))
    return TopicDescription(
        name,
        topic.topic_id,
        topic.created_ms,
        partitions,
        {key: (text_of(value), origin) for key, (value, origin) in values.items()},
        state.readable_records(partitions),
    )
