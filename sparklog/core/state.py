"""The state of a cluster: what the metadata chain says after its entry `n`. Values in it are immutable.

`apply` is the only place that changes one. `fork` gives a state to decide on that shares everything and
keeps its changes to itself.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field

import msgspec

from sparklog.core.cluster_config import topic_defaults
from sparklog.core.object_table import ObjectTable
from sparklog.core.overlay import OverlayMap
from sparklog.core.records import CommandResult, JobRan
from sparklog.core.slice_table import SliceTable
from sparklog.core.topic_config import TopicConfig, effective
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    LeaderEpoch,
    ObjectNumber,
    Offset,
    PartitionIndex,
    ProducerId,
    StoreId,
    TopicId,
    TopicPartition,
)

FORMAT = 1  # version of entries, snapshots and objects; a cluster of another is refused by name


class Store(msgspec.Struct, frozen=True):
    """A registered store. `url` is "." for the cluster's own root."""

    store: StoreId
    registration: int
    url: str
    incarnation: str
    zone: str


class Topic(msgspec.Struct, frozen=True):
    """A topic; `config` holds the explicitly set keys only."""

    topic_id: TopicId
    name: str
    partitions: int
    config: dict[str, str]
    created_ms: int


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """A partition: who holds it, under which epoch, and how far it goes.

    `log_ends[i]` is the LEO of `replicas[i]`. `epochs` is the leader epoch history: (epoch, start offset).
    `version` rises at every swap, truncation, loss, assignment or ISR change.
    """

    topic_id: TopicId
    partition: PartitionIndex
    replicas: tuple[StoreId, ...]
    leader: StoreId
    leader_epoch: LeaderEpoch
    version: int
    isr: tuple[StoreId, ...]
    log_ends: tuple[Offset, ...]
    next_offset: Offset
    high_watermark: Offset
    log_start: Offset
    epochs: tuple[tuple[LeaderEpoch, Offset], ...]
    size_bytes: int = 0

    def log_end(self, store: StoreId) -> Offset:
        """LEO of one replica. Raises ValueError if the store is none."""
        return self.log_ends[self.replicas.index(store)]


class SequencedBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One append of an idempotent producer: its sequence numbers (both inclusive) and where it starts."""

    first_sequence: int
    last_sequence: int
    start: Offset
    end: Offset


class Producer(msgspec.Struct, frozen=True, array_like=True):
    """An idempotent producer: its epoch, and per partition its last five batches, oldest first."""

    producer_id: ProducerId
    producer_epoch: int
    last_used_ms: int
    batches: dict[TopicPartition, tuple[SequencedBatch, ...]] = {}


class ApplicationState(msgspec.Struct, frozen=True, array_like=True):
    """The last version an application wrote, and what that write led to."""

    version: int
    result: CommandResult


class Retired(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An object that no slice names any more: its bytes may go from `delete_after_ms` on. `topic` is in its name."""

    number: ObjectNumber
    delete_after_ms: int
    topic: str


@dataclass(slots=True)
class ClusterState:
    """Everything the chain says after entry `n`; n = -1 before entry 0."""

    n: int = -1
    time_ms: int = 0
    chain_id: str = ""
    floor: EntryNumber = EntryNumber(0)
    config: dict[str, str] = field(default_factory=dict)
    stores: MutableMapping[StoreId, Store] = field(default_factory=dict)
    topics: MutableMapping[TopicId, Topic] = field(default_factory=dict)
    topic_ids: MutableMapping[str, TopicId] = field(default_factory=dict)
    partitions: MutableMapping[TopicPartition, Partition] = field(default_factory=dict)
    slices: SliceTable = field(default_factory=SliceTable)
    objects: ObjectTable = field(default_factory=ObjectTable)
    released: MutableMapping[ObjectNumber, int] = field(default_factory=dict)  # slices already forgotten, if some
    retired: MutableMapping[ObjectNumber, Retired] = field(default_factory=dict)
    producers: MutableMapping[ProducerId, Producer] = field(default_factory=dict)
    applications: MutableMapping[str, ApplicationState] = field(default_factory=dict)
    results: MutableMapping[CommandId, CommandResult] = field(default_factory=dict)
    jobs: MutableMapping[str, JobRan] = field(default_factory=dict)
    next_topic_id: int = 1
    next_object_number: int = 0
    next_producer_id: int = 0
    next_registration: int = 0

    def fork(self) -> ClusterState:
        """A state to decide on: equal now, and changed without changing this one. O(blocks), not O(size)."""
        return ClusterState(
            self.n,
            self.time_ms,
            self.chain_id,
            self.floor,
            self.config,
            OverlayMap(self.stores),
            OverlayMap(self.topics),
            OverlayMap(self.topic_ids),
            OverlayMap(self.partitions),
            self.slices.fork(),
            self.objects.fork(),
            OverlayMap(self.released),
            OverlayMap(self.retired),
            OverlayMap(self.producers),
            OverlayMap(self.applications),
            OverlayMap(self.results),
            OverlayMap(self.jobs),
            self.next_topic_id,
            self.next_object_number,
            self.next_producer_id,
            self.next_registration,
        )

    def topic_config(self, topic: Topic) -> TopicConfig:
        """The config values in force for a topic."""
        return effective(topic.config, topic_defaults(self.config))

    def topic_named(self, name: str) -> Topic | None:
        """The topic of this name, or None."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: int, partition: int) -> Partition | None:
        """The partition, or None."""
        return self.partitions.get(TopicPartition(TopicId(topic_id), PartitionIndex(partition)))
