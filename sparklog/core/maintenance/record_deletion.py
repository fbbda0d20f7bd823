"""Plans the deletion of records by offset in the partitions of a topic (R-05, Kafka's DeleteRecords)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from sparklog.core.apply import apply
from sparklog.core.commands import MoveLogStart
from sparklog.core.decide.maintenance import decide_move_log_start
from sparklog.core.errors import InvalidInput, OffsetOutOfRange
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.records import At
from sparklog.core.row_offsets import most_records
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, ObjectNumber, Offset, OffsetRange, PartitionIndex, TopicPartition


class RecordDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """The deletion in one partition: its log start moves from `before` to `after`, and `records` records are deleted.

    If the log start is already at the wanted offset or above, `before` and `after` are equal, and `records` is 0. If
    either cuts a compacted segment, `records` is an upper limit. `objects` is the number of objects whose last slice is
    deleted, and `size_bytes` the size of one copy of them, with their indexes. They may be deleted once the clock has
    passed `delete_after_ms`, which is None if there are none.
    """

    topic: str
    command: MoveLogStart
    before: Offset
    after: Offset
    records: int
    objects: int = 0
    size_bytes: int = 0
    delete_after_ms: int | None = None

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.command.partition}"


def plan_record_deletion(
    state: ClusterState, topic: str, offsets: Mapping[int, int | None], now_ms: int
) -> list[RecordDeletion]:
    """Plan the deletion of the records below an offset in each partition of `offsets`. Does not change `state`.

    `offsets`: for each partition number the offset, or None for the high watermark. Returns one deletion per partition,
    in ascending order. An object with slices of several partitions counts only for the partition that deletes the last
    of them. Raises InvalidInput if `offsets` is empty. Raises UnknownTopicOrPartition, OffsetOutOfRange or
    PolicyViolation if one of the deletions would be refused.
    """
    if not offsets:
        raise InvalidInput(f"nothing to delete in topic {topic}: name at least one partition")
    fork = state.fork()
    return [_planned(fork, topic, number, offsets[number], now_ms) for number in sorted(offsets)]


def _planned(state: ClusterState, topic: str, number: int, offset: int | None, now_ms: int) -> RecordDeletion:
    """Plan the deletion in one partition, and apply the plan to `state`, a copy made for planning."""
    partition = partition_of(state, topic_of(state, topic), number)
    before = partition.log_start
    to = partition.high_watermark if offset is None else offset
    if to < 0:
        raise OffsetOutOfRange(f"{topic}-{number}: wanted an offset from 0, or -1 for the high watermark, found {to}")
    command = MoveLogStart(partition.topic_id, PartitionIndex(number), Offset(to))
    at = At(EntryNumber(state.n + 1), now_ms)
    records = decide_move_log_start(state, command, at)
    if not records:
        return RecordDeletion(topic=topic, command=command, before=before, after=before, records=0)
    key = TopicPartition(command.topic_id, command.partition)
    goes = OffsetRange(before, command.to)
    slices = state.slices.find(key, goes).columns
    for record in records:
        apply(state, record, at)
    retired = [
        number for number in np.unique(slices["object_number"]).tolist() if ObjectNumber(number) in state.retired
    ]
    named = [state.objects.get(ObjectNumber(number)) for number in retired]
    return RecordDeletion(
        topic=topic,
        command=command,
        before=before,
        after=command.to,
        records=most_records(slices, goes),
        objects=len(retired),
        size_bytes=sum(object_.size_bytes + object_.index_size_bytes for object_ in named if object_ is not None),
        delete_after_ms=records[0].delete_after_ms if retired else None,
    )
