"""Rows of topics, partitions and replicas, with the same fields wherever they are shown.

The HTTP interface sends these rows, `Cluster.describe` returns them, and the fields of a row are the columns of Spark's
metadata tables (`spark/read/row_columns.py`) and of the command line's JSON. A new field appears there by itself. It
must be added by hand to the tables of `topic describe` (`_COLUMNS` in `cli/topics/topic_verbs.py`) and `replica list`,
and to the coordinator's pages (in `coordinator/page/templates/`: `topic.html`, and the tables in `macros.html`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import structs

from sparklog.core.config.cluster_config import topic_defaults
from sparklog.core.config.key import text_of
from sparklog.core.config.topic_config import topic_values
from sparklog.core.describe.log_contents import LogContents, log_contents
from sparklog.core.describe.readable import amount, counted, one_line_repr
from sparklog.core.describe.replica_lags import ReplicaLag, replica_lags
from sparklog.core.lookup import topic_of
from sparklog.core.placement.replica_health import is_offline, is_under_min_isr, is_under_replicated
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import (
    Int32,
    LeaderEpoch,
    Offset,
    PartitionIndex,
    StoreId,
    TopicId,
)

PARTITION_STATES: Final = ("offline", "under min ISR", "under-replicated", "in sync")  # the worst first


class EffectiveValue(msgspec.Struct, frozen=True):
    """The effective value of a config key, and the place where it is set: topic, cluster or default."""

    value: str
    origin: str


class ReplicaRow(msgspec.Struct, frozen=True, kw_only=True):
    """A replica. `log_end` is its LEO: its store has the partition's log up to this offset, without a hole.

    `role`: leader, in sync, eligible (has every committed record, so it may lead without a loss) or lagging; then
    adding, removing, fenced or silent, if that applies. `lag_records` and `lag_bytes`: records and bytes that it lacks
    up to the end of the log. `size_bytes`: stored batch bytes up to `log_end`. `reachable`: its store is neither fenced
    nor reported as down. `registration`: that of the store.
    """

    store: StoreId
    zone: str | None
    role: str
    is_leader: bool
    in_isr: bool
    in_elr: bool
    may_lead: bool
    log_end: Offset
    lag_records: int
    lag_bytes: int
    size_bytes: int
    registration: int
    reachable: bool
    adding: bool
    removing: bool


class PartitionName(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as users name it: its topic's name, and its number in the topic."""

    topic: str
    partition: PartitionIndex


class PartitionRow(PartitionName, frozen=True, kw_only=True):
    """A partition. Offsets [log_start, high_watermark) can be read; `log_end` is the offset of the next record.

    `leader` is null if the partition is offline. `replicas` are in order of preference as leader. `state`: offline,
    under min ISR, under-replicated or in sync. `records`: the number that can be read. `size_bytes`: its stored batch
    bytes, counted once for all replicas. `segments`: the number of its slices, each in an append object or a sealed
    segment. `oldest_us`, `newest_us`: the smallest and the largest timestamp in these slices.
    """

    leader: StoreId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[ReplicaRow, ...]
    isr: tuple[StoreId, ...]
    elr: tuple[StoreId, ...]
    adding: tuple[StoreId, ...]
    removing: tuple[StoreId, ...]
    state: str
    log_start: Offset
    high_watermark: Offset
    log_end: Offset
    records: int
    size_bytes: int
    segments: int
    oldest_us: int | None
    newest_us: int | None
    version: int


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as a whole. `state` is that of its worst partition; see `PartitionRow`.

    `records`, `size_bytes` and `segments` are sums over its partitions; `oldest_us` and `newest_us` are the smallest
    and the largest of their times. `replication_factor`: the number of replicas of its first partition. `mirror_of`:
    the Kafka topic that a mirror topic mirrors, with its cluster and its id; null for all other topics.
    `promoted_from`: the one that it mirrored before it was promoted.
    """

    topic: str
    topic_id: TopicId
    replication_factor: Int32
    state: str
    records: int
    size_bytes: int
    segments: int
    oldest_us: int | None
    newest_us: int | None
    created_ms: int
    mirror_of: str | None
    promoted_from: str | None


class TopicRow(TopicSummary, frozen=True, kw_only=True):
    """A topic in a list. `partitions`: their number."""

    partitions: Int32


class TopicDescription(TopicSummary, frozen=True, kw_only=True):
    """A topic with its partitions and its effective config."""

    partitions: tuple[PartitionRow, ...]
    config: dict[str, EffectiveValue]

    def __repr__(self) -> str:
        count = counted(len(self.partitions), "partition")
        return one_line_repr("Topic", self.topic, count, counted(self.records, "record"), amount(self.size_bytes))


def topic_row(state: ClusterState, topic: Topic) -> TopicRow:
    """The topic as a row of a list."""
    summary = _summary(state, topic, log_contents(state, topic))
    return TopicRow(**structs.asdict(summary), partitions=topic.partitions)


def describe_topic(state: ClusterState, name: str, first: int = 0, most: int | None = None) -> TopicDescription:
    """Describe the topic `name`, with at most `most` partitions from number `first` on (default: all of them).

    Raises UnknownTopicOrPartition.
    """
    topic = topic_of(state, name)
    contents = log_contents(state, topic)
    chosen = state.partitions_of(topic)[first : None if most is None else first + most]
    return TopicDescription(
        **structs.asdict(_summary(state, topic, contents)),
        partitions=tuple(partition_rows(state, topic, chosen, contents)),
        config=topic_config(state, topic),
    )


def topic_config(state: ClusterState, topic: Topic) -> dict[str, EffectiveValue]:
    """The effective value of every config key of the topic."""
    values = topic_values(topic.config, topic_defaults(state.config))
    return {key: EffectiveValue(text_of(value), origin) for key, (value, origin) in values.items()}


def partition_rows(
    state: ClusterState, topic: Topic, partitions: Iterable[Partition], contents: LogContents
) -> Iterator[PartitionRow]:
    """A row for each of these partitions of the topic. `contents`: those of the topic."""
    min_isr = state.topic_config(topic).min_insync_replicas
    lags = replica_lags(state, topic)
    for partition in partitions:
        value, at = partition.replication, partition.partition
        yield PartitionRow(
            topic=topic.name,
            partition=at,
            leader=value.leader,
            leader_epoch=value.leader_epoch,
            replicas=tuple(replica_rows(state, partition, lags[at])),
            isr=value.isr,
            elr=value.elr,
            adding=value.adding,
            removing=value.removing,
            state=_partition_state(partition, min_isr),
            log_start=value.log_start,
            high_watermark=value.high_watermark,
            log_end=value.next_offset,
            records=contents.records[at],
            size_bytes=partition.size_bytes,
            segments=contents.slices[at],
            oldest_us=contents.oldest_us[at],
            newest_us=contents.newest_us[at],
            version=value.version,
        )


def replica_rows(state: ClusterState, partition: Partition, lags: Iterable[ReplicaLag]) -> Iterator[ReplicaRow]:
    """A row for each replica of the partition, in order of preference as leader. `lags`: their lags, in this order."""
    value = partition.replication
    for name, log_end, lag in zip(value.replicas, value.log_ends, lags, strict=True):
        store = state.stores[name]
        adding, removing, may_lead = name in value.adding, name in value.removing, log_end >= value.high_watermark
        part = (
            "leader"
            if name == value.leader
            else "in sync"
            if name in value.isr
            else "eligible"
            if may_lead
            else "lagging"
        )
        silent = "fenced" if store.fenced else "silent"
        more = {"adding": adding, "removing": removing, silent: not store.reachable}
        yield ReplicaRow(
            store=name,
            zone=store.zone or None,
            role=", ".join([part, *(word for word, holds in more.items() if holds)]),
            is_leader=name == value.leader,
            in_isr=name in value.isr,
            in_elr=name in value.elr,
            may_lead=may_lead,
            log_end=log_end,
            lag_records=lag.records,
            lag_bytes=lag.size_bytes,
            size_bytes=partition.size_bytes - lag.size_bytes,
            registration=store.registration,
            reachable=store.reachable,
            adding=adding,
            removing=removing,
        )


def _summary(state: ClusterState, topic: Topic, contents: LogContents) -> TopicSummary:
    partitions = state.partitions_of(topic)
    min_isr = state.topic_config(topic).min_insync_replicas
    return TopicSummary(
        topic=topic.name,
        topic_id=topic.topic_id,
        replication_factor=len(partitions[0].replication.replicas),
        state=min((_partition_state(partition, min_isr) for partition in partitions), key=PARTITION_STATES.index),
        records=sum(contents.records),
        size_bytes=sum(partition.size_bytes for partition in partitions),
        segments=sum(contents.slices),
        oldest_us=min((at_us for at_us in contents.oldest_us if at_us is not None), default=None),
        newest_us=max((at_us for at_us in contents.newest_us if at_us is not None), default=None),
        created_ms=topic.created_ms,
        mirror_of=None if topic.mirror_of is None else str(topic.mirror_of),
        promoted_from=None if topic.promoted_from is None else str(topic.promoted_from),
    )


def _partition_state(partition: Partition, min_isr: int) -> str:
    value = partition.replication
    if is_offline(value):
        return "offline"
    if is_under_min_isr(value, min_isr):
        return "under min ISR"
    return "under-replicated" if is_under_replicated(value) else "in sync"
