"""Which segments a compaction takes, and when (C-02)."""

from __future__ import annotations

from typing import Any

from sparklog.core.commands import MoveCleaner, MoveLogStart
from sparklog.core.maintenance.compaction_rule import PartitionToCompact, plan_compaction
from sparklog.core.types import Offset
from tests.core.planned_log import PlannedLog

NOW_MS = 1_000_000


class CompactedLog(PlannedLog):
    def __init__(self, **config: object) -> None:
        super().__init__({"cleanup.policy": "compact"} | {key.replace("_", "."): str(config[key]) for key in config})

    def segment(self, records: int = 10) -> None:
        start = self.partition().next_offset
        self.append_slice(records, records * 10)
        self.seal(start, start + records)

    def planned(self, clock_ms: int = NOW_MS, **more: Any) -> PartitionToCompact | None:
        return plan_compaction(self.state, self.topic, self.partition(), NOW_MS, clock_ms, **more)

    def clean(self, to: int, position: int | None = None) -> None:
        before = None if position is None else Offset(position)
        partition = self.partition()
        self.submit(MoveCleaner(partition.topic_id, partition.partition, before, Offset(to)))


def ranges(planned: PartitionToCompact | None) -> list[tuple[int, int]]:
    assert planned is not None
    return [(part.start, part.end) for part in planned.stretches]


def test_neighbours_are_joined_up_to_segment_bytes() -> None:
    log = CompactedLog(segment_bytes=250)
    for _ in range(5):
        log.segment()
    planned = log.planned()
    assert ranges(planned) == [(0, 20), (20, 40), (40, 50)]
    assert planned is not None
    assert [(part.segments, part.records, part.size_bytes) for part in planned.stretches] == [(2, 20, 200)] * 2 + [
        (1, 10, 100)
    ]


def test_the_cleanable_part_ends_at_the_first_slice_that_is_not_sealed() -> None:  # M: C-02
    log = CompactedLog()
    log.append_slice(10, 100)
    assert log.planned(everything=True) is None
    log.seal(0, 10)
    log.append_slice(10, 100)
    planned = log.planned()
    assert planned is not None
    assert (planned.end, ranges(planned)) == (10, [(0, 10)])


def test_it_is_due_when_more_than_the_dirty_ratio_is_new() -> None:  # M: C-02
    log = CompactedLog(min_cleanable_dirty_ratio=0.5)
    log.segment()
    log.segment()
    log.clean(10)
    assert log.planned() is None, "half is not more than half"
    assert log.planned(everything=True) is not None
    log.segment(1)
    planned = log.planned()
    assert planned is not None
    assert planned.reason == "52% is new (min.cleanable.dirty.ratio=0.5)"


def test_tombstones_make_it_due_after_their_delay_by_the_machines_clock() -> None:  # M: C-03
    log = CompactedLog(delete_retention_ms=500)
    log.segment()
    log.clean(10)
    passed_ms = 1_000
    assert log.planned(passed_ms + 499) is None
    planned = log.planned(passed_ms + 500)
    assert planned is not None
    assert (planned.tombstones_below, planned.cleaner) == (10, log.state.cleaners[next(iter(log.state.cleaners))])


def test_a_segment_that_the_log_start_cuts_is_left_alone_and_no_tombstone_goes() -> None:  # M: C-03
    log = CompactedLog(cleanup_policy="compact,delete", delete_retention_ms=0)
    for _ in range(2):
        log.segment()
    log.clean(20)
    assert log.planned().tombstones_below == 20  # type: ignore[union-attr]
    partition = log.partition()
    log.submit(MoveLogStart(partition.topic_id, partition.partition, Offset(3)))
    assert log.planned() is None
    planned = log.planned(everything=True)
    assert planned is not None
    assert (ranges(planned), planned.tombstones_below) == ([(10, 20)], None)


def test_topics_that_only_delete_are_not_compacted() -> None:
    log = CompactedLog(cleanup_policy="delete")
    log.segment()
    assert log.planned(everything=True) is None
