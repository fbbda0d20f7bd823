"""What deleting records would do: the plan says what the commands then do, and changes nothing itself."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sparklog.core.commands import AlterTopic, Append, PartitionEpoch
from sparklog.core.describe.log_contents import log_contents
from sparklog.core.errors import InvalidInput, OffsetOutOfRange, UnknownTopicOrPartition
from sparklog.core.maintenance.record_deletion import plan_record_deletion
from sparklog.core.types import LeaderEpoch, PartitionIndex
from tests.core.decided_log import TOPIC, DecidedLog
from tests.core.state_contents import contents

NOW_MS = 5_000
DELAY_MS = 60_000


@pytest.fixture
def log() -> DecidedLog:
    """Partition 0: [0, 20), and [20, 30) in an object that it shares with [0, 5) of partition 1. There also [5, 9)."""
    made = DecidedLog()
    made.append(20)
    epochs = tuple(PartitionEpoch(TOPIC, PartitionIndex(at), LeaderEpoch(0)) for at in (0, 1))
    parts = (made.part(10, 0), replace(made.part(5, 1), position=100))
    made.submit(Append((made.uploaded(150),), parts, epochs))
    made.append(4, 1)
    return made


def readable(log: DecidedLog, partition: int) -> int:
    """The number of records that can be read in a partition."""
    return log_contents(log.state, log.state.topics[TOPIC]).records[partition]


@pytest.mark.parametrize(
    "offsets",
    [
        {0: 7},
        {0: 20},
        {0: None},
        {0: 25, 1: 3},
        {1: None, 0: None},
        {0: 0, 1: 9},
    ],
)
def test_what_is_planned_is_what_the_commands_do(log: DecidedLog, offsets: dict[int, int | None]) -> None:
    before = contents(log.state)
    planned = plan_record_deletion(log.state, "orders", offsets, NOW_MS)
    assert contents(log.state) == before
    assert [deletion.command.partition for deletion in planned] == sorted(offsets)
    log.now_ms = NOW_MS
    for deletion in planned:
        left, retired = readable(log, deletion.command.partition), len(log.state.retired)
        log.submit(deletion.command)
        now = log.partition(deletion.command.partition)
        assert (deletion.after, deletion.records) == (now.log_start, left - readable(log, deletion.command.partition))
        assert deletion.objects == len(log.state.retired) - retired
    assert sum(deletion.size_bytes for deletion in planned) == sum(
        named.size_bytes + named.index_size_bytes
        for named in (log.state.objects.get(retired.number) for retired in log.state.retired)
        if named is not None
    )
    dues_ms = {deletion.delete_after_ms for deletion in planned if deletion.objects}
    assert dues_ms <= {NOW_MS + DELAY_MS}


def test_a_log_start_that_is_that_high_stays(log: DecidedLog) -> None:
    (once,) = plan_record_deletion(log.state, "orders", {0: 12}, NOW_MS)
    log.submit(once.command)
    for offset in (12, 3, 0):
        (again,) = plan_record_deletion(log.state, "orders", {0: offset}, NOW_MS)
        assert (again.before, again.after, again.records, again.delete_after_ms) == (12, 12, 0, None)


def test_an_offset_that_makes_no_sense_is_refused_with_all_the_others(log: DecidedLog) -> None:
    for bad, message in (
        ({0: 5, 1: 10}, "log start of orders-1 can rise to its high watermark 9, wanted 10"),
        ({0: 31, 1: 1}, "log start of orders-0 can rise to its high watermark 30, wanted 31"),
        ({0: -2}, "orders-0: wanted an offset from 0, or -1 for the high watermark, found -2"),
    ):
        with pytest.raises(OffsetOutOfRange, match=message):
            plan_record_deletion(log.state, "orders", bad, NOW_MS)
    with pytest.raises(UnknownTopicOrPartition, match="wanted partition 7 of topic orders"):
        plan_record_deletion(log.state, "orders", {0: 1, 7: 1}, NOW_MS)
    with pytest.raises(UnknownTopicOrPartition, match="wanted topic 'order'"):
        plan_record_deletion(log.state, "order", {0: 1}, NOW_MS)
    with pytest.raises(InvalidInput, match="nothing to delete in topic orders"):
        plan_record_deletion(log.state, "orders", {}, NOW_MS)


def test_of_a_compacted_segment_the_records_that_are_left_count(log: DecidedLog) -> None:
    log.submit(AlterTopic(TOPIC, {"cleanup.policy": "compact,delete"}))
    log.submit(log.swap_of(0, 20, records=3))
    (whole,) = plan_record_deletion(log.state, "orders", {0: 20}, NOW_MS)
    (more,) = plan_record_deletion(log.state, "orders", {0: 25}, NOW_MS)
    (part,) = plan_record_deletion(log.state, "orders", {0: 2}, NOW_MS)
    (most,) = plan_record_deletion(log.state, "orders", {0: 19}, NOW_MS)
    assert (whole.records, more.records, most.records) == (3, 8, 3)
    assert part.records == 2, "which ones are left is known only when they are read"
