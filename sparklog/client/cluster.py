"""`sparklog.connect(url)`: a cluster for Python programs."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from sparklog.chain.committer import DEFAULT_TIMEOUT_MS, new_command_id
from sparklog.client.connection import Connection
from sparklog.client.write_plan import append_command, check_partition_named, plan_write, producer_slices, write_rows
from sparklog.core.commands import (
    AddPartitions,
    AllocateProducer,
    AlterTopic,
    Application,
    Command,
    CreateTopic,
    DeleteTopic,
    Submission,
)
from sparklog.core.config.cluster import topic_defaults
from sparklog.core.config.key import text_of
from sparklog.core.config.storage import storage_settings
from sparklog.core.config.topic import parse_topic_config, topic_values
from sparklog.core.errors import InvalidInput
from sparklog.core.plan import RangeToRead, check_range, partition_of, plan_range, topic_of
from sparklog.core.records import CommandResult
from sparklog.core.replication.epoch_history import EpochEnd, end_of_epoch
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import LeaderEpoch, StoreId
from sparklog.host.clock import now_ms
from sparklog.log.records_schema import DEFAULT_COLUMNS, left_out_warning, read_schema
from sparklog.log.scan import scan
from sparklog.log.stores import Stores
from sparklog.log.time_lookup import first_at_or_after

log = logging.getLogger("sparklog")


class TopicDescription(msgspec.Struct, frozen=True):
    """A topic as `describe` shows it.

    `config` maps each key to its effective value and the origin of that: "topic", "cluster" or "default".
    """

    name: str
    topic_id: int
    created_ms: int
    partitions: tuple[Partition, ...]
    config: dict[str, tuple[str, str]]

    @property
    def records(self) -> int:
        """How many records can be read."""
        return sum(partition.records for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        """Stored batch bytes."""
        return sum(partition.size_bytes for partition in self.partitions)


class Cluster:
    """One cluster, as this process sees it. Thread-safe. Use it as a context manager, or call `close`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for background writes to finish."""
        self.connection.close()

    # ---- topics ---------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        assignment: Sequence[Sequence[str]] | None = None,
    ) -> TopicDescription:
        """Create a topic. `assignment` sets the stores of each partition by hand, the preferred leader first.

        Raises TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidReplicationFactor, InvalidConfig.
        """
        by_hand = (
            None if assignment is None else tuple(tuple(StoreId(store) for store in stores) for stores in assignment)
        )
        settings = parse_topic_config(config or {})
        self.submit(CreateTopic(name, partitions, replication_factor, settings, by_hand))
        return self.describe(name)

    def topics(self) -> list[str]:
        """The names of all topics, in ascending order."""
        with self.connection.follower.current() as state:
            return sorted(state.topic_ids)

    def describe(self, name: str) -> TopicDescription:
        """A topic with its partitions and config. Raises UnknownTopicOrPartition."""
        with self.connection.follower.current() as state:
            topic = topic_of(state, name)
            values = topic_values(topic.config, topic_defaults(state.config))
            return TopicDescription(
                name,
                topic.topic_id,
                topic.created_ms,
                tuple(state.partitions_of(topic)),
                {key: (text_of(value), origin) for key, (value, origin) in values.items()},
            )

    def alter(self, name: str, *, config: Mapping[str, object]) -> None:
        """Set config keys of a topic. A value of None removes the key. Raises InvalidConfig."""
        removed = tuple(key for key, value in config.items() if value is None)
        changed = parse_topic_config({key: value for key, value in config.items() if value is not None})
        self.submit(AlterTopic(self._topic(name).topic_id, changed, removed))

    def add_partitions(self, name: str, total: int) -> None:
        """Raise the number of partitions to `total`. Keys may move to other partitions. Raises InvalidPartitions."""
        self.submit(AddPartitions(self._topic(name).topic_id, total))

    def delete_topic(self, name: str) -> None:
        """Delete a topic at once. The next retention run after `file.delete.delay.ms` deletes its objects."""
        self.submit(DeleteTopic(self._topic(name).topic_id))

    # ---- records --------------------------------------------------------------------------------

    def append(
        self,
        topic: str | None,
        rows: pa.Table | pa.RecordBatch,
        *,
        compression: str | None = None,
        producer: tuple[int, int, int] | None = None,
        application: tuple[str, int] | None = None,
        write_id: str = "",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> CommandResult:
        """Append rows in one atomic commit: all of them, over all partitions and topics, or nothing.

        `rows` have the column value, and optionally key, topic, partition, headers, timestamp; other columns are left
        out with a warning. If `topic` is None, each row names its topic. With `producer` = (id, epoch, first sequence),
        a repeat of the same call returns the original offsets. Its rows must name one partition, because sequences are
        counted per partition and a repeat might be routed elsewhere. `application` = (id, version) does the same per
        version. Raises InvalidInput and its subclasses (nothing was written), OutcomeUnknown.
        """
        if producer is not None:
            check_partition_named(rows)
        with self.connection.follower.current() as state:
            plan = plan_write(
                state,
                self.connection.places(state),
                new_command_id(),
                topic=topic,
                compression=compression,
                now_ms=now_ms(),
            )
        batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches()
        warning = left_out_warning(rows.schema.names)
        if warning is not None:
            log.warning("%s", warning)
        written = write_rows(plan, batches, task=int(plan.command_id[:4], 16))
        named = None if application is None else Application(*application)
        command = append_command(plan, [written], application=named, label=write_id)
        if command is None:
            return CommandResult(plan.n0, plan.n0, 0)
        if producer is not None:
            command = msgspec.structs.replace(command, slices=producer_slices(command.slices, producer))
        return self.connection.committer.submit(Submission(plan.command_id, plan.n0, command), timeout_ms)

    def allocate_producer(self, producer_id: int | None = None) -> tuple[int, int]:
        """(producer id, epoch): a new idempotent producer, or the next epoch of a known one, which fences the last."""
        result = self.submit(AllocateProducer(producer_id))
        if result.producer_id is None or result.producer_epoch is None:
            raise AssertionError("an allocation leads to a producer id and an epoch")
        return result.producer_id, result.producer_epoch

    def scan(
        self,
        topic: str,
        *,
        partition: int,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        include_headers: bool = False,
    ) -> pa.RecordBatchReader:
        """Records [start, end) of a partition as a stream of batches, in the order of offsets.

        By default from the log start to the high watermark, both as of this call. Raises OffsetOutOfRange and
        UnknownTopicOrPartition at once, DataLoss and Damaged while the stream is read.
        """
        chosen = list(columns) if columns is not None else [*DEFAULT_COLUMNS, *(["headers"] if include_headers else [])]
        schema = read_schema(chosen)
        with self.connection.follower.current() as state:
            stores = self.connection.stores(state)
            plan = self._plan(state, topic, partition, start, end)
        return pa.RecordBatchReader.from_batches(schema, scan(plan, stores, chosen, self.connection.replan))

    def read(
        self,
        topic: str,
        *,
        partition: int,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        include_headers: bool = False,
    ) -> pa.Table:
        """Like `scan`, but as one table in memory."""
        return self.scan(
            topic, partition=partition, start=start, end=end, columns=columns, include_headers=include_headers
        ).read_all()

    def offsets_for_times(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        """For each partition the lowest offset whose record is at or after the time; None if there is none."""
        with self.connection.follower.current() as state:
            indexes = [each.partition for each in state.partitions_of(topic_of(state, topic))]
        return {index: self.offset_for_time(topic, index, timestamp_ms * 1000) for index in indexes}

    def offset_for_time(self, topic: str, partition: int, timestamp_us: int) -> int | None:
        """The lowest offset of a partition whose timestamp is at or after `timestamp_us`, or None (S-05).

        Raises UnknownTopicOrPartition, DataLoss, Damaged, and the stores' errors.
        """
        return first_at_or_after(self._now, topic, partition, timestamp_us)

    def offsets_for_leader_epoch(self, topic: str, partition: int, leader_epoch: int) -> EpochEnd | None:
        """The greatest leader epoch of a partition, at most `leader_epoch`, that has written, and where it ends (L-05).

        The newest epoch ends at the log end, which may lie above the high watermark. An older one ends where the next
        greater one begins. None for an epoch that is still to come. Raises InvalidInput (a negative epoch),
        UnknownTopicOrPartition.
        """
        if leader_epoch < 0:
            raise InvalidInput(f"a leader epoch is 0 or greater, found {leader_epoch}")
        with self.connection.follower.current() as state:
            value = partition_of(state, topic_of(state, topic), partition).replication
        return end_of_epoch(value.epochs, value.next_offset, LeaderEpoch(leader_epoch))

    # ---- inside ---------------------------------------------------------------------------------

    def submit(self, command: Command, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """Commit one command. Raises the command's error, OutcomeUnknown, RequestTimedOut."""
        committer = self.connection.committer
        return committer.submit(committer.begin(command), timeout_ms)

    def _now(self) -> tuple[ClusterState, Stores]:
        with self.connection.follower.current() as state:
            return state, self.connection.stores(state)

    def _topic(self, name: str) -> Topic:
        with self.connection.follower.current() as state:
            return topic_of(state, name)

    def _plan(self, state: ClusterState, topic: str, partition: int, start: int | None, end: int | None) -> RangeToRead:
        found_topic = topic_of(state, topic)
        partition_state = partition_of(state, found_topic, partition)
        low = partition_state.log_start if start is None else start
        high = partition_state.high_watermark if end is None else end
        return plan_range(state, found_topic, partition, check_range(topic, partition_state, low, high))


def connect(url: str | None = None, *, storage: Mapping[str, str] | None = None) -> Cluster:
    """Connect to the cluster at `url` (default: SPARKLOG_CLUSTER): a path, file:///path, s3://bucket/prefix,
    hdfs://host/path, memory://name.

    `storage` maps "store.key" to a setting, like {"metadata.endpoint_url": "http://127.0.0.1:9000"}; docs/stores.md
    lists them. They take precedence over the file that SPARKLOG_CONFIG names, and that file over the platform's own
    configuration. SPARKLOG_ZONE names the zone of this process: stores there are read before others.
    Raises ClusterNotFound, ChainDamaged, UnsupportedVersion, InvalidInput, StoreUnavailable.
    """
    address = url or os.environ.get("SPARKLOG_CLUSTER")
    if not address:
        raise InvalidInput("which cluster? give its address, or set SPARKLOG_CLUSTER (for example file:///path)")
    return Cluster(Connection(address, settings=storage_settings(storage or {})))
