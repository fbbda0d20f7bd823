"""`sparklog.connect(url)` and the `Cluster` that it returns to Python programs."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never

import msgspec

from sparklog.chain.commit.committer import DEFAULT_TIMEOUT_MS
from sparklog.client.admin import Admin
from sparklog.client.commits.unawaited import UnawaitedCommits
from sparklog.client.connection import Connection
from sparklog.client.consumer.listener import RebalanceListener
from sparklog.client.consumer.options import consumer_options
from sparklog.client.groups.member import SESSION_TIMEOUT_MS, GroupMember
from sparklog.client.groups.offsets import (
    Offsets,
    commit_offsets,
    commit_with_records,
    committed,
)
from sparklog.client.kafka_names import AnswersKafkaMethods, refuse_unknown
from sparklog.client.plans.write_plan import Durability, append_command
from sparklog.core.commands import AllocateProducer, Application, DeleteGroups
from sparklog.core.config.storage import storage_settings
from sparklog.core.describe.group_rows import GroupDescription, describe_group
from sparklog.core.describe.readable import counted, duration, one_line_repr
from sparklog.core.errors import InvalidInput, RequestTimedOut, Wakeup
from sparklog.core.groups.membership import CommittedOffset
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.producing.producer_settings import (
    BATCH_BYTES,
    BUFFER_BYTES,
    DELIVERY_TIMEOUT_MS,
    LINGER_MS,
    MAX_BLOCK_MS,
    MAX_IN_FLIGHT,
    ProducerSettings,
)
from sparklog.core.reading.plan import RangeToRead, check_range, plan_range
from sparklog.core.records import CommandResult
from sparklog.core.replication.epoch_history import EpochEnd
from sparklog.core.replication.leader_epochs import end_of_leader_epoch
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state import ClusterState
from sparklog.core.types import Place
from sparklog.host.deadline import Deadline
from sparklog.log.cluster_stores import Stores

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklog.client.aio import AsyncConsumer, AsyncProducer
    from sparklog.client.consumer.consumer import Consumer
    from sparklog.client.producer.producer import Producer
    from sparklog.client.producer.targets import Serializer

log = logging.getLogger("sparklog")


class Cluster(Admin, AnswersKafkaMethods):
    """The API of one cluster: records and groups in this class; topics, stores and replicas in its base `Admin`.

    pyarrow is imported by the first call that needs it, so that CLI commands without records start quickly.

    Thread-safe. Use it as a context manager, or call `close`.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._unawaited = UnawaitedCommits()
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()
        self._consumers: set[Consumer] = set()  # the open ones

    def __repr__(self) -> str:
        state = self.connection.follower.state  # the newest state read so far: a repr does no I/O
        return one_line_repr("Cluster", self.connection.url, counted(len(state.topic_ids), "topic"), f"entry {state.n}")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """Close the cluster as `close` does. If the `with` block raised an error, consumers commit nothing."""
        self._close(kind)

    def close(self) -> None:
        """Close the producers, wait for other background writes, then close the consumers and the connection.

        Producers come first: records that the program made from consumed records are written before a consumer commits
        the offsets of the consumed ones. If closing a producer raises an error, no consumer commits, and everything is
        closed nevertheless. A record that failed raises nothing here: only its future has the error, so check the
        futures before you call this. Raises the errors of `Producer.close` and `Consumer.close`.
        """
        self._close(None)

    def _close(self, kind: type[BaseException] | None) -> None:
        with ExitStack() as last_first:
            last_first.callback(self.connection.close)
            for consumer in list(self._consumers):
                last_first.push(partial(_end_of, consumer, kind))
            last_first.callback(self._unawaited.close)
            for producer in list(self._producers):
                last_first.callback(producer.close)

    # ---- records --------------------------------------------------------------------------------

    def append(
        self,
        topic: str | None,
        rows: pa.Table | pa.RecordBatch,
        *,
        acks: str | int = "all",
        replication: str = "push",
        compression: str | None = None,
        producer: tuple[int, int, int] | None = None,
        application: tuple[str, int] | None = None,
        consumed: tuple[str, Offsets] | None = None,
        write_id: str = "",
        keep_offsets: bool = False,
        ends: Mapping[int, int] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> CommandResult:
        """Append rows in one atomic commit: all of them, over all partitions and topics, or nothing.

        `rows` has the column value, and optionally key, topic, partition, headers, timestamp; other columns are left
        out with a warning. If `topic` is None, each row names its topic. If there are no rows, and neither
        `application` nor `consumed` is given, nothing is committed. The result then has no offsets, and its `n` is the
        newest entry that was read.

        `acks`: "all" (or -1) returns once the records are on every in-sync replica, 1 once they are on the leader's
        store. 0 does not wait for the commit: the result has no offsets, and an error is only logged; `close` waits.
        `replication`: "push" uploads to all in-sync stores, "pull" to the leaders' stores, from which the others fetch.
        With acks=1, acks=0 or "pull", a call can write to one partition only, and can't have `application` or
        `consumed`.
        `producer` = (id, epoch, first sequence): a repeat of the same call writes nothing and returns the original
        offsets. All rows must name the same partition, because sequences are counted per partition, and a repeat might
        be routed to another one.
        `application` = (id, version): if this version or a higher one was written, the call writes nothing and returns
        the result of the highest.
        `consumed` = (group, offsets): the rows were made from the records below these offsets. The call commits the
        offsets to the group in the same commit, as `commit_offsets` would.
        `write_id`: a label of the write in the chain.
        `keep_offsets`: for a mirror topic, which takes nothing else. Each row names its `partition` and the `offset`
        that it keeps. If its `timestampType` is 1, its timestamp is the append time in Kafka. The offsets of a
        partition ascend from its next offset on; those without a row stay empty.
        `ends`: with `keep_offsets`, maps partitions to the offset after the last one that this call covers, if offsets
        after the last row stay empty, too.

        While a partition has no leader or too few replicas in sync, the commit is tried again for up to `timeout_ms`;
        the time of uploads does not count. Raises InvalidInput and its subclasses (nothing was written),
        NotEnoughReplicasAfterAppend and RequestTimedOut (the error's attribute `landed` says if the rows were written),
        OutcomeUnknown, and the stores' errors.
        """
        import pyarrow as pa

        from sparklog.client.commits.commit_write import commit_append
        from sparklog.client.plans.plan_and_upload import plan_and_upload
        from sparklog.client.plans.task_upload import check_arrow, check_partition_named, producer_slices
        from sparklog.log.kafka_columns import left_out_warning
        from sparklog.log.write.kept_offsets import KeptOffsets

        check_arrow(rows)
        durability = Durability(Acks.of(acks), _is_pull(replication))
        if producer is not None:
            check_partition_named(rows)
        if ends is not None and not keep_offsets:
            raise InvalidInput("ends are given only with keep_offsets, which writes to a mirror topic")
        if keep_offsets and topic is None:
            raise InvalidInput("keep_offsets writes to one topic: give its name")
        kept = KeptOffsets.of(rows, ends or {}) if keep_offsets else None
        batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches()
        warning = left_out_warning(rows.schema.names)
        if warning is not None:
            log.warning("%s", warning)
        offsets = None
        if consumed is not None:
            state = self.connection.newest_state()
            offsets = commit_with_records(state, *consumed)
        plan, written, spent_ms = plan_and_upload(
            self.connection, topic, batches, compression, durability, timeout_ms, kept=kept
        )
        named = None if application is None else Application(*application)
        command = append_command(plan, [written], application=named, label=write_id, consumed=offsets)
        nothing = CommandResult(plan.n0, plan.n0, 0)
        if command is None:
            return nothing
        if producer is not None:
            command = msgspec.structs.replace(command, slices=producer_slices(command.slices, producer))
        commit = partial(commit_append, self.connection, plan, [written], command, timeout_ms)
        if durability.acks is Acks.NONE:
            self._unawaited.begin(partial(commit, spent_ms=spent_ms))
            return nothing
        deadline = Deadline(timeout_ms - spent_ms)
        if not self._unawaited.wait(deadline.left_s()):
            raise RequestTimedOut(
                f"nothing was written: earlier writes with acks=0 were not done within {duration(timeout_ms)}"
            )
        return commit(spent_ms=spent_ms + deadline.spent_ms())

    def allocate_producer(self, producer_id: int | None = None) -> tuple[int, int]:
        """Allocate an idempotent producer; returns (producer id, epoch).

        With `producer_id`, begins the next epoch of that producer, which fences its earlier epochs. Raises
        UnknownProducerId.
        """
        result = self.submit(AllocateProducer(producer_id))
        if result.producer_id is None or result.producer_epoch is None:
            raise AssertionError("an allocation leads to a producer id and an epoch")
        return result.producer_id, result.producer_epoch

    def producer(
        self,
        *,
        acks: str | int = "all",
        linger_ms: int = LINGER_MS,
        batch_size: int = BATCH_BYTES,
        buffer_memory: int = BUFFER_BYTES,
        max_block_ms: int = MAX_BLOCK_MS,
        delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
        max_in_flight: int = MAX_IN_FLIGHT,
        compression: str | None = None,
        producer_id: int | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        **unknown: Never,
    ) -> Producer:
        """Create a producer: it takes records one by one, and writes them in batches, in order and each once.

        docs/producer.md explains the settings. With `producer_id`, it continues as that producer in the next epoch,
        and fences the older instance. Raises InvalidInput, InvalidOption, InvalidRequiredAcks, UnknownProducerId.
        """
        from sparklog.client.producer.producer import Producer
        from sparklog.log.batch import check_compression

        refuse_unknown(
            "a producer",
            unknown,
            (*ProducerSettings.__struct_fields__, "compression", "producer_id", "key_serializer", "value_serializer"),
        )
        settings = ProducerSettings(
            acks=Acks.of(acks),
            linger_ms=linger_ms,
            batch_size=batch_size,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            max_in_flight=max_in_flight,
        )
        if compression is not None:
            check_compression(compression)
        made = Producer(
            self.connection,
            settings,
            compression=compression,
            producer_id=producer_id,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
        )
        self._producers.add(made)
        return made

    def scan(
        self,
        topic: str,
        *,
        partition: int,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        include_headers: bool = False,
        fail_on_data_loss: bool = True,
    ) -> pa.RecordBatchReader:
        """Return records [start, end) of a partition as a stream of batches, in the order of offsets.

        `start` defaults to the log start, `end` to the high watermark, as of this call. With `fail_on_data_loss` false,
        lost records are left out. Raises OffsetOutOfRange, UnknownTopicOrPartition and InvalidInput (wrong `columns`)
        at once; DataLoss, Damaged and the stores' errors while the stream is read.
        """
        import pyarrow as pa

        from sparklog.log.kafka_columns import DEFAULT_COLUMNS, read_schema
        from sparklog.log.read.scan import scan

        chosen = list(columns) if columns is not None else [*DEFAULT_COLUMNS, *(["headers"] if include_headers else [])]
        schema = read_schema(chosen)
        state = self.connection.newest_state()
        stores = self.connection.stores(state)
        plan = self._plan(state, topic, partition, start, end)
        batches = scan(plan, stores, chosen, self.connection.replan, fail_on_data_loss=fail_on_data_loss)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def read(
        self,
        topic: str,
        *,
        partition: int,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        include_headers: bool = False,
        fail_on_data_loss: bool = True,
    ) -> pa.Table:
        """Like `scan`, but as one table in memory."""
        return self.scan(
            topic,
            partition=partition,
            start=start,
            end=end,
            columns=columns,
            include_headers=include_headers,
            fail_on_data_loss=fail_on_data_loss,
        ).read_all()

    def offsets_for_times(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        """Return for each partition the lowest offset of a record at or after this time.

        None for a partition without such a record. Raises the errors of `offset_for_time`.
        """
        state = self.connection.newest_state()
        indexes = [partition.partition for partition in state.partitions_of(topic_of(state, topic))]
        return {index: self.offset_for_time(topic, index, timestamp_ms * 1000) for index in indexes}

    def offset_for_time(self, topic: str, partition: int, timestamp_us: int) -> int | None:
        """Return the lowest offset of a record of the partition at or after `timestamp_us`.

        None if there is no such record. Raises UnknownTopicOrPartition, DataLoss, Damaged, and the stores' errors.
        """
        from sparklog.log.read.time_lookup import first_at_or_after

        return first_at_or_after(self._now, topic, partition, timestamp_us)

    def offset_of_last(self, topic: str, partition: int, records: int) -> int:
        """Return the offset at which the last `records` readable records of a partition begin; at least the log start.

        Raises the errors of `offset_for_time`.
        """
        from sparklog.log.read.record_lookup import start_of_last

        return start_of_last(self._now, topic, partition, records)

    def offsets_for_leader_epoch(self, topic: str, partition: int, leader_epoch: int) -> EpochEnd | None:
        """Return the greatest leader epoch up to `leader_epoch` in a partition's history, and that epoch's end offset.

        The newest epoch ends at the log end, which may be above the high watermark. Any other epoch is in the history
        only if something was written in it. If `leader_epoch` is older than the whole history, returns `leader_epoch`
        itself, with the offset at which the history begins. None if the epoch `leader_epoch` has not begun. Raises
        UnknownTopicOrPartition, and InvalidInput for a negative epoch.
        """
        state = self.connection.newest_state()
        return end_of_leader_epoch(state, topic_of(state, topic), partition, leader_epoch)

    # ---- groups ---------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        """The names of all consumer groups, in ascending order."""
        state = self.connection.newest_state()
        return sorted(state.groups)

    def describe_groups(self) -> list[GroupDescription]:
        """Describe all consumer groups as of one state of the chain, in order of their names."""
        state = self.connection.newest_state()
        return [describe_group(state, name) for name in sorted(state.groups)]

    def describe_group(self, group: str) -> GroupDescription:
        """Describe a group: its members, and the committed offset, high watermark and lag of each partition.

        Raises GroupIdNotFound.
        """
        state = self.connection.newest_state()
        return describe_group(state, group)

    def committed(self, group: str) -> dict[Place, CommittedOffset]:
        """Return the committed offsets of a group, keyed by (topic, partition); empty if it never committed."""
        state = self.connection.newest_state()
        return committed(state, group)

    def commit_offsets(self, group: str, offsets: Offsets, *, metadata: str = "") -> None:
        """Commit offsets to a group without members: all of `offsets`, keyed by (topic, partition), or nothing.

        A member commits by `GroupMember.commit` instead. A value may be a `Position` instead of an offset: a position
        whose topic was deleted since is refused, even if the topic was created again. `metadata`: a text stored with
        the offsets. Raises UnknownMemberId (the group has members), OffsetOutOfRange, OffsetMetadataTooLarge,
        InvalidCommitOffsetSize, UnknownTopicOrPartition, InvalidGroupId, InvalidInput.
        """
        commit_offsets(self.connection, group, offsets, metadata)

    def join_group(
        self, group: str, topics: Sequence[str], *, session_timeout_ms: int = SESSION_TIMEOUT_MS
    ) -> GroupMember:
        """Join a consumer group as a new member; the group divides the partitions of the topics among its members.

        The member must be polled: after `session_timeout_ms` without a sign of life, it may be evicted. Raises the
        errors of `GroupMember`.
        """
        return GroupMember(self.connection, group, topics, session_timeout_ms=session_timeout_ms)

    def consumer(
        self,
        *topics: str,
        group: str | None = None,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
        **options: object,
    ) -> Consumer:
        """Create a consumer of these topics, or of all topics whose names match `pattern` (a regular expression).

        Without topics and pattern it reads nothing until `subscribe` or `assign`. With `group`, its first `poll` joins
        the group, which divides the partitions among its members. `options` are those of `ConsumerOptions`. Close the
        consumer, or use it as a context manager; `Cluster.close` closes it, too.
        Raises InvalidOption, InvalidGroupId, InvalidInput, UnknownTopicOrPartition.
        """
        from sparklog.client.consumer.consumer import Consumer

        consumer = Consumer(self.connection, group, consumer_options(options), self._consumers.discard)
        if topics or pattern is not None:
            consumer.subscribe(topics, pattern=pattern, listener=listener)
        elif listener is not None:
            raise InvalidInput("a listener belongs to a subscription: give it to subscribe")
        self._consumers.add(consumer)
        return consumer

    def async_producer(self, **settings: Any) -> AsyncProducer:
        """Like `producer`, for asyncio: `async with cluster.async_producer() as producer`. Takes the same settings."""
        from sparklog.client.aio import AsyncProducer

        return AsyncProducer(partial(self.producer, **settings))

    def async_consumer(self, *topics: str, **options: Any) -> AsyncConsumer:
        """Like `consumer`, for asyncio: `async with cluster.async_consumer("orders") as consumer`. Same arguments."""
        from sparklog.client.aio import AsyncConsumer

        return AsyncConsumer(partial(self.consumer, *topics, **options))

    def delete_group(self, group: str) -> None:
        """Delete a group and its committed offsets.

        Raises GroupIdNotFound if there is no such group, and NonEmptyGroup if it has members.
        """
        self.submit(DeleteGroups((group,)))

    # ---- inside ---------------------------------------------------------------------------------

    def _now(self) -> tuple[ClusterState, Stores]:
        state = self.connection.newest_state()
        return state, self.connection.stores(state)

    def _plan(self, state: ClusterState, topic: str, partition: int, start: int | None, end: int | None) -> RangeToRead:
        known_topic = topic_of(state, topic)
        partition_state = partition_of(state, known_topic, partition)
        low = partition_state.log_start if start is None else start
        high = partition_state.high_watermark if end is None else end
        return plan_range(state, known_topic, partition, check_range(topic, partition_state, low, high))


def _end_of(
    consumer: Consumer,
    kind: type[BaseException] | None,
    kind_since: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    """Close a consumer while its cluster is being closed; after an error, close it without a commit.

    `kind`: the type of the exception that the cluster's `with` block raised. `kind_since`: the type of an exception
    that was raised while other objects of the cluster were closed. None: there was no such exception. An exception
    other than Wakeup, in `kind` or in `kind_since`, counts as an error. ExitStack passes all parameters after `kind`.
    """
    consumer.__exit__((kind_since or kind) if kind in (None, Wakeup) else kind)


def _is_pull(replication: str) -> bool:
    if replication not in ("push", "pull"):
        raise InvalidInput(f"replication: wanted push or pull, found {replication!r}")
    return replication == "pull"


def connect(
    url: str | None = None,
    *,
    storage: Mapping[str, str] | None = None,
    token: str | None = None,
    ca: str | None = None,
    **unknown: Never,
) -> Cluster:
    """Connect to the cluster at `url` (default: the environment variable SPARKLOG_CLUSTER).

    `url` is a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, abfs://container/prefix, hdfs://host/path,
    memory://name, or the address of a coordinator, https://host:port.

    `storage` maps "store.key" to a setting, like {"metadata.endpoint_url": "http://127.0.0.1:9000"}; docs/stores.md
    lists the keys. These settings take precedence over the file that SPARKLOG_CONFIG names, and that file over the
    platform's own configuration. `token` (default: SPARKLOG_TOKEN) is the token for coordinators, `ca` (default:
    SPARKLOG_CA) a file with the certificates to trust for coordinators. SPARKLOG_ZONE names the zone of this process:
    stores in this zone are read before others.
    Raises ClusterNotFound, ChainDamaged, UnsupportedVersion, InvalidInput, InvalidOption, StoreUnavailable,
    AccessRefused.
    """
    refuse_unknown("connect", unknown, ("url", "storage", "token", "ca"))
    address = url or os.environ.get("SPARKLOG_CLUSTER")
    if not address:
        raise InvalidInput("no cluster given: give its address, or set SPARKLOG_CLUSTER (for example file:///path)")
    return Cluster(Connection(address, settings=storage_settings(storage or {}, token, ca)))
