"""The state of a cluster: everything that the metadata chain says after its entry `n`.

A state that others can see is a value: it never changes, so any thread may read it without a lock for as long as it
likes. To advance, `fork` it, apply records to the fork (core/apply.py) and end the entry (`Draft` in chain/head.py): no
other code changes a state. Then the fork becomes the state that others see, or it is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat
from typing import cast

import msgspec

from sparklog.core.config.cluster_config import effective_cluster, topic_defaults
from sparklog.core.config.topic_config import TopicConfig, effective
from sparklog.core.coordination import NO_COORDINATOR, Coordinator
from sparklog.core.describe.readable import one_line_repr
from sparklog.core.groups.membership import ConsumerGroup
from sparklog.core.maintenance.cleaner import Cleaner
from sparklog.core.records import CommandResult, JobRan, LostRecords, LostVersion
from sparklog.core.replication.partition import Replication
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.tables.object_table import ObjectTable
from sparklog.core.tables.offset_table import OffsetTable
from sparklog.core.tables.result_table import ResultTable
from sparklog.core.tables.retired_table import RetiredTable
from sparklog.core.tables.slice_table import SliceTable
from sparklog.core.types import (
    EntryNumber,
    KafkaTopic,
    ObjectNumber,
    Offset,
    PartitionIndex,
    ProducerId,
    StoreId,
    TopicId,
    TopicPartition,
)

CHAIN_ENTRIES = 10**12  # entry numbers reserved for each chain of a cluster: more than it can ever write
STORE_CONDITIONS = ("live", "dead", "stopped", "new", "fenced")
FORMAT = 7  # version of entries and snapshots; any other is refused by name


def first_entry(restores: int) -> EntryNumber:
    """Return the number of the first entry of a cluster's chain, after this many restores of the cluster.

    Each restore begins a new chain, and the chains of a cluster share no entry numbers, however long a lost chain was.
    So every upload begun on a lost chain has an n0 below the FLOOR of the next chain.
    """
    return EntryNumber(restores * CHAIN_ENTRIES)


class Store(msgspec.Struct, frozen=True):
    """A registered store. `url` is "." for the cluster's own root; `zone` is "" if it has none.

    On a `fenced` store no replica is in sync or leads, until the store is registered again. `agent_up` is None if the
    agent's condition is unknown, and then the store counts as reachable. It is unknown if no agent has run yet, if the
    agent was stopped on purpose, or if a write has reached the store since the agent fell silent. `had_agent`: an agent
    has run since the store was registered.

    Every object of the store with a number below `recovery_point` was read and is whole (F-03). A new registration
    resets it to 0. `grew_at`: the last entry that gave the store a replica of records that already existed.
    `registered_at`: the entry of its registration.
    """

    store: StoreId
    registration: int
    url: str
    incarnation: str
    zone: str
    fenced: bool = False
    agent_up: bool | None = None
    had_agent: bool = False
    recovery_point: ObjectNumber = ObjectNumber(0)
    grew_at: EntryNumber = EntryNumber(0)
    registered_at: EntryNumber = EntryNumber(0)

    def __repr__(self) -> str:
        more = (f"zone {self.zone}" if self.zone else "", "fenced" if self.fenced else "")
        return one_line_repr("Store", self.store, *filter(None, more), self.url)

    @property
    def reachable(self) -> bool:
        """True if replicas on the store may lead: it is not fenced, and its agent was not reported as down."""
        return not self.fenced and self.agent_up is not False

    @property
    def condition(self) -> str:
        """The condition of the store, one of STORE_CONDITIONS.

        `fenced` if it is fenced; else `live` if its agent is up, `dead` if the agent is down, and if the agent's
        condition is unknown, `stopped` if it has had an agent, else `new`.
        """
        if self.fenced:
            return "fenced"
        return {None: "stopped" if self.had_agent else "new", True: "live", False: "dead"}[self.agent_up]


class Topic(msgspec.Struct, frozen=True):
    """A topic. `config` has only the keys that were set.

    `stores` have replicas of the topic, or once had some: copies of its objects may be there. `mirror_of`: the Kafka
    topic that a mirror topic mirrors; None for all other topics, also for one that was promoted. `promoted_from`: the
    Kafka topic that a promoted topic mirrored: offsets from before the promotion are those of Kafka.
    """

    topic_id: TopicId
    name: str
    partitions: int
    config: dict[str, str]
    created_ms: int
    stores: tuple[StoreId, ...] = ()
    mirror_of: KafkaTopic | None = None
    promoted_from: KafkaTopic | None = None

    @property
    def kafka_topic(self) -> KafkaTopic | None:
        """The Kafka topic that this one mirrors, or mirrored until its promotion: the records have its offsets."""
        return self.mirror_of or self.promoted_from

    def on(self, stores: Iterable[StoreId]) -> Topic:
        """Return the topic with these stores added to `stores`."""
        new = set(stores).difference(self.stores)
        return msgspec.structs.replace(self, stores=(*self.stores, *sorted(new))) if new else self


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """A partition: its replicas and their log ends, and the stored bytes of its slices."""

    topic_id: TopicId
    partition: PartitionIndex
    replication: Replication
    size_bytes: int = 0

    @property
    def next_offset(self) -> Offset:
        """The offset of the next record."""
        return self.replication.next_offset

    @property
    def high_watermark(self) -> Offset:
        """The end of the records that can be read."""
        return self.replication.high_watermark

    @property
    def log_start(self) -> Offset:
        """The first offset that can be read: earlier records were deleted."""
        return self.replication.log_start


class SequencedBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One append of an idempotent producer: its sequence numbers (both inclusive) and its offsets [start, end)."""

    first_sequence: int
    last_sequence: int
    start: Offset
    end: Offset


class ProducerState(msgspec.Struct, frozen=True, array_like=True):
    """The state of an idempotent producer: its epoch, and its last five batches in each partition, oldest first.

    `lost`: records of the producer that unclean elections gave up. If there are any, its writes are refused until it
    begins its next epoch.
    """

    producer_id: ProducerId
    producer_epoch: int
    last_used_ms: int
    batches: dict[TopicPartition, tuple[SequencedBatch, ...]] = {}
    lost: tuple[LostRecords, ...] = ()


class ApplicationState(msgspec.Struct, frozen=True, array_like=True):
    """The last version that an application has written, and the result of that write.

    `lost`: the records of that version that an unclean election gave up; None once the application has been notified.
    `runs`: the newest of the application's runs that have written, the current one first; the others are fenced.
    """

    version: int
    result: CommandResult
    lost: LostVersion | None = None
    runs: tuple[str, ...] = ()

    def has_written(self, version: int) -> bool:
        """True if this version or a newer one was written, so that a repeat adds nothing.

        Returns False while the application has not been notified of a loss.
        """
        return version <= self.version and self.lost is None


class CopiesLowered(msgspec.Struct, frozen=True, array_like=True):
    """The last entry that lowered metadata.copies, and the value before it."""

    n: int
    copies_before: int


@dataclass(slots=True)
class ClusterState:
    """The state of the cluster after entry `n` of the chain; `n` is -1 before entry 0."""

    n: int = -1
    time_ms: int = 0
    chain_id: str = ""
    ancestors: tuple[str, ...] = ()  # the chains that this one was restored from, oldest first
    floor: EntryNumber = EntryNumber(0)
    config: dict[str, str] = field(default_factory=dict)
    copies_lowered: CopiesLowered | None = None
    stores: CopyOnWriteMap[StoreId, Store] = field(default_factory=CopyOnWriteMap)
    topics: CopyOnWriteMap[TopicId, Topic] = field(default_factory=CopyOnWriteMap)
    topic_ids: CopyOnWriteMap[str, TopicId] = field(default_factory=CopyOnWriteMap)
    partitions: CopyOnWriteMap[TopicPartition, Partition] = field(default_factory=CopyOnWriteMap)
    cleaners: CopyOnWriteMap[TopicPartition, Cleaner] = field(default_factory=CopyOnWriteMap)  # of compacted ones
    slices: SliceTable = field(default_factory=SliceTable)
    objects: ObjectTable = field(default_factory=ObjectTable)
    released: CopyOnWriteMap[ObjectNumber, int] = field(default_factory=CopyOnWriteMap)  # slices forgotten, if any
    retired: RetiredTable = field(default_factory=RetiredTable)
    producers: CopyOnWriteMap[ProducerId, ProducerState] = field(default_factory=CopyOnWriteMap)
    applications: CopyOnWriteMap[str, ApplicationState] = field(default_factory=CopyOnWriteMap)
    results: ResultTable = field(default_factory=ResultTable)
    jobs: CopyOnWriteMap[str, JobRan] = field(default_factory=CopyOnWriteMap)
    groups: CopyOnWriteMap[str, ConsumerGroup] = field(default_factory=CopyOnWriteMap)
    offsets: OffsetTable = field(default_factory=OffsetTable)  # of groups
    coordinator: Coordinator = NO_COORDINATOR
    next_topic_id: int = 1
    next_object_number: int = 0
    next_producer_id: int = 0
    next_registration: int = 0
    next_group_number: int = 0

    def fork(self) -> ClusterState:
        """Return an equal state that may be changed without changing this one. Takes microseconds for any size."""
        return ClusterState(
            n=self.n,
            time_ms=self.time_ms,
            chain_id=self.chain_id,
            ancestors=self.ancestors,
            floor=self.floor,
            config=self.config,
            copies_lowered=self.copies_lowered,
            stores=self.stores.fork(),
            topics=self.topics.fork(),
            topic_ids=self.topic_ids.fork(),
            partitions=self.partitions.fork(),
            cleaners=self.cleaners.fork(),
            slices=self.slices.fork(),
            objects=self.objects.fork(),
            released=self.released.fork(),
            retired=self.retired.fork(),
            producers=self.producers.fork(),
            applications=self.applications.fork(),
            results=self.results.fork(),
            jobs=self.jobs.fork(),
            groups=self.groups.fork(),
            offsets=self.offsets.fork(),
            coordinator=self.coordinator,
            next_topic_id=self.next_topic_id,
            next_object_number=self.next_object_number,
            next_producer_id=self.next_producer_id,
            next_registration=self.next_registration,
            next_group_number=self.next_group_number,
        )

    @property
    def lineage(self) -> tuple[str, ...]:
        """The ids of all chains of the cluster, oldest first, this one last. Each restore begins a new chain."""
        return (*self.ancestors, self.chain_id)

    @property
    def lowers_copies(self) -> bool:
        """True if entry `n` lowered metadata.copies. Nothing may follow it until as many stores as before have it."""
        return self.copies_lowered is not None and self.copies_lowered.n == self.n

    @property
    def copies_wanted(self) -> int:
        """Number of other stores that must have entry `n`: the larger of metadata.copies before and after it."""
        copies = effective_cluster(self.config).metadata_copies if self.config else 0
        lowered = self.copies_lowered
        return max(copies, lowered.copies_before) if lowered is not None and lowered.n == self.n else copies

    @property
    def first_entry(self) -> EntryNumber:
        """The number of the chain's first entry."""
        return first_entry(len(self.ancestors))

    @property
    def n0(self) -> EntryNumber:
        """The `n0` of a command that begins with this state: its newest entry, or 0 before entry 0."""
        return EntryNumber(max(self.n, 0))

    def registrations(self) -> dict[StoreId, int]:
        """Return the registration number of each store that is not fenced."""
        return {store.store: store.registration for store in self.stores.values() if not store.fenced}

    def topic_config(self, topic: Topic) -> TopicConfig:
        """Return the config values of a topic: those set for it, else the cluster's, else the built-in defaults."""
        return effective(topic.config, topic_defaults(self.config) if self.config else None)

    def topic_named(self, name: str) -> Topic | None:
        """Return the topic of this name, or None."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partitions_of(self, topic: Topic) -> list[Partition]:
        """Return the topic's partitions, from 0 on."""
        # Every write asks for all partitions, so there is no call per partition.
        indexes = cast("Iterable[PartitionIndex]", range(topic.partitions))
        return self.partitions.get_all(map(TopicPartition, repeat(topic.topic_id), indexes))

    def partition(self, topic_id: int, partition: int) -> Partition | None:
        """Return the partition of this topic and number, or None."""
        return self.partitions.get(TopicPartition(TopicId(topic_id), PartitionIndex(partition)))
