"""What a table lacks, and what the next commit adds: position.py and steps.py, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.errors import Conflict, DataLoss, InconsistentClusterId
from sparklog.core.lookup import topic_of
from sparklog.core.reading.plan import WeighedRange
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, PartitionIndex, TopicId
from sparklog.spark.materialize.position import (
    Mode,
    PartitionEnd,
    TablePosition,
    check_same_source,
    of_metadata,
)
from sparklog.spark.materialize.steps import (
    Due,
    DueRange,
    Weighed,
    due_ranges,
    first_position,
    next_step,
    weighed,
)
from tests.client.mirrored_topic import MirroredTopic


def due(*ranges: tuple[int, int]) -> Due:
    return {
        PartitionIndex(partition): DueRange(OffsetRange(Offset(start), Offset(end)), LeaderEpoch(3))
        for partition, (start, end) in enumerate(ranges)
    }


def dense(due: Due) -> Weighed:
    """What `weighed` returns if every offset has a record."""
    return {
        partition: WeighedRange(TopicId(1), partition, range_.offsets.start, range_.offsets.end, 0)
        for partition, range_ in due.items()
    }


def position(*ends: int, step: int = 4) -> TablePosition:
    reached = [PartitionEnd(PartitionIndex(at), Offset(end), LeaderEpoch(0)) for at, end in enumerate(ends)]
    return TablePosition("chain", 1, "t", Mode.APPEND, step, "run", tuple(reached))  # type: ignore[arg-type]


def test_a_step_takes_the_same_share_of_every_partition_and_counts_on() -> None:
    step = next_step(position(0, 10), ranges := due((0, 100), (10, 20), (0, 1)), dense(ranges), 50)
    assert [(range_.start, range_.end) for range_ in step.ranges.values()] == [(0, 45), (10, 14), (0, 1)]
    assert step.after.step == 5
    assert [(end.partition, end.offset, end.leader_epoch) for end in step.after.ends] == [
        (0, 45, 3),
        (1, 14, 3),
        (2, 1, 3),
    ]


def test_steps_end_with_everything() -> None:
    before, left = position(), due((0, 7), (3, 4))
    for _ in range(20):
        if not left:
            break
        step = next_step(before, left, dense(left), 3)
        before = step.after
        left = {
            partition: range_._replace(offsets=OffsetRange(step.ranges[partition].end, range_.offsets.end))
            for partition, range_ in left.items()
            if step.ranges[partition].end < range_.offsets.end
        }
    assert [end.offset for end in before.ends] == [7, 4]


def test_offsets_without_records_need_no_steps(cluster: Cluster) -> None:
    """A mirror that begins at a late offset in Kafka, and a promotion to a later end."""
    topic = MirroredTopic(cluster).create()
    topic.append([10**12, 10**12 + 1], end=10**13)
    topic.append(range(10**13, 10**13 + 5))
    topic.promote({0: 10**15})
    state = cluster.connection.newest_state()
    described = topic_of(state, "t")
    before, ends = first_position(state, described, Mode.APPEND, "run"), []
    for _ in range(3):
        left = {PartitionIndex(0): DueRange(OffsetRange(before.ends[0].offset, Offset(10**15)), LeaderEpoch(1))}
        before = next_step(before, left, weighed(state, described, left), 3).after
        ends.append(before.ends[0].offset)
    assert ends == [10**13 + 1, 10**13 + 4, 10**15]


def test_a_position_survives_the_metadata_of_a_commit_and_other_programs_have_none() -> None:
    written = position(5, 6)
    assert of_metadata(written.to_metadata()) == written
    assert of_metadata(None) is None
    assert of_metadata("sparklog.materialize, but no JSON") is None
    assert of_metadata('{"sparklog.materialize": {"step": 1}}') is None


def test_a_table_of_another_topic_or_mode_is_refused() -> None:
    with pytest.raises(Conflict, match="that topic t fills"):
        check_same_source(position(), "u", 1, Mode.APPEND, "d")  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="id 1"):
        check_same_source(position(), "t", 2, Mode.APPEND, "d")  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="--mode append"):
        check_same_source(position(), "t", 1, Mode.LATEST, "d")  # type: ignore[arg-type]


def test_records_that_went_before_the_table_got_them_are_a_loss(cluster: Cluster, tmp_path: Path) -> None:
    from sparklog.core.commands import MoveLogStart

    cluster.create_topic("t", partitions=1)
    cluster.append("t", pa.table({"value": [b"v"] * 10}))
    state = cluster.connection.newest_state()
    topic = topic_of(state, "t")
    first = first_position(state, topic, Mode.APPEND, "run")
    ranges, warnings = due_ranges(state, topic, None, fail_on_data_loss=True)
    assert ranges[PartitionIndex(0)].offsets == OffsetRange(Offset(0), Offset(10))
    reached = next_step(first, ranges, weighed(state, topic, ranges), 4).after
    cluster.submit(MoveLogStart(topic.topic_id, PartitionIndex(0), Offset(7)))
    state = cluster.connection.newest_state()
    assert not due_ranges(state, topic, None, fail_on_data_loss=True)[1], "a new table begins at the log start"
    with pytest.raises(DataLoss, match="t-0: wanted records from offset 4 on, found the log start at 7"):
        due_ranges(state, topic, reached, fail_on_data_loss=True)
    ranges, warnings = due_ranges(state, topic, reached, fail_on_data_loss=False)
    assert ranges[PartitionIndex(0)].offsets == OffsetRange(Offset(7), Offset(10))
    assert len(warnings) == 1
    with pytest.raises(InconsistentClusterId):
        due_ranges(state, topic, position(1), fail_on_data_loss=False)


def test_what_a_partition_lost_before_the_table_began_is_no_loss_even_if_it_was_empty_then(cluster: Cluster) -> None:
    """Its first records come later than those of the others, and the log start is above 0 by then."""
    from sparklog.core.commands import MoveLogStart

    def append(partition: int, records: int) -> None:
        rows = {"value": [b"v"] * records, "partition": pa.array([partition] * records, pa.int32())}
        cluster.append("t", pa.table(rows))

    cluster.create_topic("t", partitions=2)
    append(0, 3)
    append(1, 5)
    state = cluster.connection.newest_state()
    topic = topic_of(state, "t")
    cluster.submit(MoveLogStart(topic.topic_id, PartitionIndex(1), Offset(5)))
    state = cluster.connection.newest_state()
    ranges, _ = due_ranges(state, topic, None, fail_on_data_loss=True)
    weights = weighed(state, topic, ranges)
    reached = next_step(first_position(state, topic, Mode.APPEND, "run"), ranges, weights, 100).after
    append(1, 1)
    state = cluster.connection.newest_state()
    ranges, warnings = due_ranges(state, topic, reached, fail_on_data_loss=True)
    assert ranges == {PartitionIndex(1): DueRange(OffsetRange(Offset(5), Offset(6)), LeaderEpoch(0))}
    assert warnings == []
