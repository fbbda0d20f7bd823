"""A state with one topic of one partition, made by commands: what the planners of maintenance look at."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparklog.core.apply import apply_entry
from sparklog.core.commands import (
    Append,
    Command,
    CreateCluster,
    CreateTopic,
    NewStore,
    PartitionEpoch,
    RewrittenSlice,
    Submission,
    Swap,
)
from sparklog.core.decide import decide
from sparklog.core.records import AppliedCommand, At
from sparklog.core.slice_table import digest
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewObject,
    NewSlice,
    ObjectKind,
    Offset,
    OffsetRange,
    PartitionIndex,
    StoreId,
    TimestampSource,
    TopicPartition,
    UploadId,
)

HOLDERS = (Holder(StoreId("a"), 0),)


@dataclass
class PlannedLog:
    """Topic "orders" with partition 0. `now_ms` is the time of the next entry."""

    config: dict[str, str]
    now_ms: int = 1_000
    state: ClusterState = field(default_factory=ClusterState)
    _ids: int = 0

    def __post_init__(self) -> None:
        self.submit(CreateCluster("c" * 32, (NewStore(StoreId("a"), ".", "i"),)))
        self.submit(CreateTopic("orders", 1, 1, self.config))

    @property
    def topic(self) -> Topic:
        found = self.state.topic_named("orders")
        assert found is not None
        return found

    @property
    def partition(self) -> Partition:
        return self.state.partitions[TopicPartition(self.topic.topic_id, PartitionIndex(0))]

    def submit(self, command: Command) -> None:
        at = At(EntryNumber(self.state.n + 1), self.now_ms)
        submission = Submission(CommandId(self._new_id()), EntryNumber(max(self.state.n, 0)), command)
        records = decide(self.state, submission, at).records
        apply_entry(self.state, [AppliedCommand(submission.command_id, submission.n0, records)], at)

    def append(self, records: int, length: int, timestamp_ms: int = 0) -> None:
        """One slice in an object of its own."""
        topic_id, zero = self.topic.topic_id, PartitionIndex(0)
        new = NewSlice(0, topic_id, zero, records, 8, length, 0, 1, timestamp_ms * 1000, timestamp_ms * 1000)
        epochs = (PartitionEpoch(topic_id, zero, LeaderEpoch(0)),)
        self.submit(Append((self._object(ObjectKind.APPEND, length),), (new,), epochs))

    def seal(self, start: int, end: int) -> None:
        """Swap [start, end) for one sealed segment."""
        key = TopicPartition(self.topic.topic_id, PartitionIndex(0))
        found = self.state.slices.find(key, OffsetRange(Offset(start), Offset(end)))
        length = int(found.columns["length"].sum())
        new = NewSlice(0, key.topic_id, key.partition, end - start, 8, length, 0, 1, 0, 0)
        slices = (
            RewrittenSlice(new, Offset(start), Offset(end), self.now_ms, TimestampSource.CREATE_TIME, LeaderEpoch(0)),
        )
        sealed = self._object(ObjectKind.SEGMENT, length, base_offset=start)
        self.submit(Swap(key.topic_id, key.partition, Offset(start), Offset(end), digest(found), (sealed,), slices))

    def _object(self, kind: ObjectKind, length: int, base_offset: int | None = None) -> NewObject:
        sealed = base_offset is not None
        return NewObject(
            kind,
            EntryNumber(max(self.state.n, 0)),
            UploadId(self._new_id()),
            self.topic.topic_id,
            length + 100,
            1,
            50,
            2,
            HOLDERS,
            PartitionIndex(0) if sealed else None,
            Offset(base_offset) if base_offset is not None else None,
            LeaderEpoch(0) if sealed else None,
        )

    def _new_id(self) -> str:
        self._ids += 1
        mixed = self._ids * 0x9E3779B97F4A7C15 % 2**64  # spread over all beginnings, and never the same
        return f"{mixed:016x}{self._ids:016x}"
