"""A cluster of two stores whose state is made by commands alone: what `decide` and `apply` are tested on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from sparklog.core.apply import result_of
from sparklog.core.commands import (
    AllocateProducer,
    Append,
    Application,
    Command,
    CreateCluster,
    CreateTopic,
    NewStore,
    PartitionEpoch,
    RewrittenSlice,
    Submission,
    Swap,
)
from sparklog.core.decide.command import Decision, decide
from sparklog.core.records import AppliedCommand, At, CommandResult, SlicesSwapped
from sparklog.core.replication.lost_records import check_left
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.replica_invariants import check_rewrite, check_step
from sparklog.core.state import ClusterState, Partition
from sparklog.core.state_invariants import check
from sparklog.core.tables.slice_table import SliceColumns, digest
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
    ProducerId,
    ProducerSpan,
    StoreId,
    TimestampSource,
    TopicId,
    TopicPartition,
    UploadId,
)
from tests.kit.apply_entry import apply_entry

A, B = StoreId("a"), StoreId("b")
TOPIC = TopicId(1)
RECORD_BYTES = 10


def place(partition: int = 0, topic_id: int = TOPIC) -> TopicPartition:
    return TopicPartition(TopicId(topic_id), PartitionIndex(partition))


def span(producer_id: int, epoch: int, first: int, last: int) -> ProducerSpan:
    return ProducerSpan(ProducerId(producer_id), epoch, first, last)


@dataclass
class DecidedLog:
    """Topic "orders" with two partitions on store "a"; store "b" holds nothing. `now_ms` is the next entry's time."""

    now_ms: int = 1_000
    state: ClusterState = field(default_factory=ClusterState)
    entries: dict[int, tuple[AppliedCommand, At]] = field(default_factory=dict)
    _ids: int = 0

    def __post_init__(self) -> None:
        self.submit(CreateCluster("c" * 32, (NewStore(A, ".", "i"), NewStore(B, "file:///b", "j"))))
        self.submit(CreateTopic("orders", assignment=((A,), (A,))))

    # ---- deciding and applying ------------------------------------------------------------------

    def begin(self, command: Command, **more: Any) -> Submission:
        return Submission(CommandId(self.new_id()), self.state.n0, command, **more)

    def decide(self, command: Command) -> Decision:
        """What comes of it; the state stays as it is."""
        return self.decide_again(self.begin(command))

    def decide_again(self, submission: Submission) -> Decision:
        return decide(self.state, submission, At(EntryNumber(self.state.n + 1), self.now_ms))

    def submit(self, command: Command) -> CommandResult:
        """Decide, apply, check what must always hold; a repeat gives its known result."""
        return self.submit_again(self.begin(command))

    def submit_again(self, submission: Submission) -> CommandResult:
        at = At(EntryNumber(self.state.n + 1), self.now_ms)
        decision = self.decide_again(submission)
        if decision.known is not None:
            return decision.known
        if decision.committed_in is not None:
            result = result_of(*self.entries[decision.committed_in])
            check_left(self.state, result)
            return result
        applied = AppliedCommand(submission.command_id, submission.n0, decision.records)
        if decision.records:
            self.entries[at.n] = applied, at
            before = dict(self.state.partitions)
            apply_entry(self.state, [applied], at)
            check(self.state)
            self._check_steps(before)
            for record in decision.records:
                if isinstance(record, SlicesSwapped):
                    key = TopicPartition(record.topic_id, record.partition)
                    check_rewrite(before[key].replication, self.state.partitions[key].replication, self.min_isr(key))
        return result_of(applied, at)

    def _check_steps(self, before: dict[TopicPartition, Partition]) -> None:
        for key in before.keys() & self.state.partitions.keys():
            check_step(before[key].replication, self.state.partitions[key].replication, self.min_isr(key))

    def min_isr(self, key: TopicPartition) -> int:
        return self.state.topic_config(self.state.topics[key.topic_id]).min_insync_replicas

    # ---- commands -------------------------------------------------------------------------------

    def append_of(
        self,
        records: int = 1,
        partition: int = 0,
        *,
        producer: ProducerSpan | None = None,
        application: Application | None = None,
    ) -> Append:
        """One object with one slice of `records` records."""
        named = self.uploaded(records * RECORD_BYTES)
        return Append(
            (named,),
            (self.part(records, partition, producer=producer),),
            (PartitionEpoch(TOPIC, PartitionIndex(partition), LeaderEpoch(0)),),
            application,
        )

    def append(self, records: int = 1, partition: int = 0, **more: Any) -> CommandResult:
        return self.submit(self.append_of(records, partition, **more))

    def producer(self) -> ProducerId:
        """A new idempotent producer, at epoch 0."""
        found = self.submit(AllocateProducer()).producer_id
        assert found is not None
        return found

    def swap_of(self, start: int, end: int, records: int | None = None, partition: int = 0) -> Swap:
        """One sealed segment for [start, end), made from the slices that are there now; fewer records: compacted."""
        found = self.slices(partition, start, end)
        new = self.part(end - start if records is None else records, partition)
        rewritten = RewrittenSlice(
            new=new,
            start=Offset(start),
            end=Offset(end),
            append_time_ms=self.now_ms,
            timestamp_source=TimestampSource.CREATE_TIME,
            leader_epoch=LeaderEpoch(0),
        )
        sealed = self.uploaded(new.length, sealed=(partition, start))
        return Swap(
            TOPIC, PartitionIndex(partition), Offset(start), Offset(end), digest(found), (sealed,), (rewritten,)
        )

    def uploaded(self, size_bytes: int = 100, *, sealed: tuple[int, int] | None = None, **changes: Any) -> NewObject:
        """An object on store "a"; `sealed`: partition and base offset of a segment."""
        found = NewObject(
            kind=ObjectKind.APPEND if sealed is None else ObjectKind.SEGMENT,
            n0=self.state.n0,
            upload_id=UploadId(self.new_id()),
            topic_id=TOPIC,
            size_bytes=size_bytes,
            crc32c=1,
            index_size_bytes=50,
            index_crc32c=2,
            holders=(Holder(A, 0),),
            partition=None if sealed is None else PartitionIndex(sealed[0]),
            base_offset=None if sealed is None else Offset(sealed[1]),
            leader_epoch=None if sealed is None else LeaderEpoch(0),
        )
        return msgspec.structs.replace(found, **changes)

    def part(self, records: int = 1, partition: int = 0, **changes: Any) -> NewSlice:
        """A slice at the beginning of the first object."""
        found = NewSlice(
            object_index=0,
            topic_id=TOPIC,
            partition=PartitionIndex(partition),
            records=records,
            position=0,
            length=records * RECORD_BYTES,
            first_batch=0,
            batches=1,
            min_timestamp_us=5,
            max_timestamp_us=6,
        )
        return msgspec.structs.replace(found, **changes)

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids * 0x9E3779B97F4A7C15 % 2**64:016x}{self._ids:016x}"

    # ---- what is there --------------------------------------------------------------------------

    def partition(self, partition: int = 0) -> Partition:
        return self.state.partitions[place(partition)]

    def become(self, replication: Replication, partition: int = 0) -> None:
        """Replicas of a partition by hand, where commands would take long to lead to them."""
        before = self.partition(partition)
        after = msgspec.structs.replace(before, replication=replication)
        self.state.partitions[place(partition)] = after

    def slices(self, partition: int = 0, start: int = 0, end: int = 1 << 40) -> SliceColumns:
        return self.state.slices.find(place(partition), OffsetRange(Offset(start), Offset(end)))

    def bounds(self, partition: int = 0) -> list[tuple[int, int]]:
        return [(each.start, each.end) for each in self.slices(partition)]
