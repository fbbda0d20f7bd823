"""From options and a state to tasks, without Spark: every kind of bound, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.client.cluster import Cluster
from sparklog.client.plans.read_plan import ReadPlan, plan_read
from sparklog.core.commands import FenceStore, MoveLogStart, NewStore, RegisterStore
from sparklog.core.errors import (
    Conflict,
    InvalidOption,
    KeyNotFound,
    OffsetOutOfRange,
    StoreUnavailable,
    UnknownTopicOrPartition,
)
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.types import Offset, PartitionIndex, StoreId, TopicId
from sparklog.log.read.first_holder import HolderFailure, NoHolderAnswers
from sparklog.log.read.time_lookup import first_in
from sparklog.options.typed import parse_read_options
from sparklog.spark.read.batch_reader import BatchReader
from sparklog.spark.read.task_to_read import TaskToRead
from sparklog.spark.schema import records_schema
from tests.kit.log import new_cluster

HOUR_US = 3_600_000_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic t: ten records in each of two partitions, one an hour from hour 0 on; topic u: empty."""
    with new_cluster() as made:
        made.create_topic("t", partitions=2)
        made.create_topic("u", partitions=1)
        append(made, [0] * 10 + [1] * 10, [*range(10), *range(10)])
        yield made


def append(cluster: Cluster, partitions: list[int], hours: list[int]) -> None:
    cluster.append(
        "t",
        pa.table(
            {
                "value": pa.array([str(hour) for hour in hours]),
                "partition": pa.array(partitions, pa.int32()),
                "timestamp": pa.array([hour * HOUR_US for hour in hours], pa.timestamp("us", tz="UTC")),
            }
        ),
    )


def planned(cluster: Cluster, **options: object) -> ReadPlan:
    given = {"cluster": "/elsewhere", **{name: str(value) for name, value in options.items()}}
    state = cluster.connection.newest_state()
    return plan_read(state, parse_read_options(given), cluster.connection.stores(state))


def ranges(cluster: Cluster, **options: object) -> list[tuple[str, int, int, int]]:
    """(topic, partition, start, end) of every range, adjoining ones joined."""
    found: list[tuple[str, int, int, int]] = []
    for task in planned(cluster, **options).tasks:
        for each in task:
            last = found[-1] if found else None
            if last is not None and last[:2] == (each.topic, each.partition) and last[3] == each.start:
                found[-1] = (*last[:3], each.end)
            else:
                found.append((each.topic, each.partition, each.start, each.end))
    return found


def hour(number: float) -> str:
    return str(int(number * HOUR_US / 1000))


def test_subscription_chooses_partitions_in_order(cluster: Cluster) -> None:
    whole = [("t", 0, 0, 10), ("t", 1, 0, 10)]
    assert ranges(cluster, subscribe="u,t,t") == whole
    assert ranges(cluster, subscribePattern="[tu]") == whole
    assert ranges(cluster, subscribePattern="x") == []
    assert ranges(cluster, assign='{"u":[0],"t":[1]}') == [("t", 1, 0, 10)]


def test_a_topic_that_was_created_again_is_not_the_one_that_was_named(cluster: Cluster) -> None:
    state = cluster.connection.newest_state()
    topic_id = state.topic_ids["t"]
    wanted = {"assign": '{"t":[0]}', "startingOffsets": '{"t":{"0":2}}', "topicId": topic_id}
    assert ranges(cluster, **wanted) == [("t", 0, 2, 10)]
    cluster.delete_topic("t")
    cluster.create_topic("t", partitions=2)
    append(cluster, [0] * 10, list(range(10)))
    with pytest.raises(
        Conflict, match=f"topicId: wanted topic {topic_id}, found that topic t has the id {topic_id + 2}"
    ):
        planned(cluster, **wanted)


# M: S-05
def test_times_find_the_first_record_at_or_after_them(cluster: Cluster) -> None:
    """S-05: start inclusive, end exclusive; beyond the last record the end is latest."""
    assert ranges(cluster, assign='{"t":[0]}', startingTimestamp=hour(3), endingTimestamp=hour(7)) == [("t", 0, 3, 7)]
    assert ranges(cluster, assign='{"t":[0]}', startingTimestamp=hour(2.5), endingTimestamp=hour(99)) == [
        ("t", 0, 3, 10)
    ]
    assert ranges(cluster, assign='{"t":[0]}', startingTimestamp=hour(4), endingTimestamp=hour(4)) == []


def test_a_start_after_the_last_record_fails_or_is_latest(cluster: Cluster) -> None:
    with pytest.raises(OffsetOutOfRange, match="t-0: no offset matched from startingTimestamp"):
        planned(cluster, subscribe="t", startingTimestamp=hour(99))
    assert ranges(cluster, subscribe="t", startingTimestamp=hour(99), startingOffsetsByTimestampStrategy="latest") == []


# M: S-05
def test_look_ups_by_time_assume_no_order(cluster: Cluster) -> None:
    append(cluster, [0, 0], [50, 3])
    assert ranges(cluster, assign='{"t":[0]}', startingTimestamp=hour(20)) == [("t", 0, 10, 12)]
    assert ranges(cluster, assign='{"t":[0]}', endingTimestamp=hour(20)) == [("t", 0, 0, 10)]
    append(cluster, [1, 1], [8, 60])
    asked = '{"t":{"1":%s}}'
    by_time = {"startingOffsetsByTimestamp": asked % hour(10), "endingOffsetsByTimestamp": asked % hour(9)}
    with pytest.raises(InvalidOption, match=r"start 1970-01-01T10:00:00\.000Z > end 1970-01-01T09:00:00\.000Z"):
        planned(cluster, assign='{"t":[1]}', **by_time)


def test_offsets_must_name_exactly_the_partitions_that_are_read(cluster: Cluster) -> None:
    with pytest.raises(InvalidOption, match=r"endingOffsets: .* found missing: t-1; not read: none"):
        planned(cluster, subscribe="t", endingOffsets='{"t":{"0":5}}')
    with pytest.raises(InvalidOption, match=r"startingOffsets: .* found missing: none; not read: t-1"):
        planned(cluster, assign='{"t":[0]}', startingOffsets='{"t":{"0":5,"1":5}}')
    with pytest.raises(UnknownTopicOrPartition, match="wanted partition 2 of topic t, it has partitions 0 to 1"):
        planned(cluster, assign='{"t":[2]}')


@pytest.mark.parametrize(
    ("start", "end", "kept"),
    [(0, 3, None), (2, 7, (4, 7)), (5, 99, (5, 10)), (12, 15, None), (-2, 3, None), (11, -1, None)],
)
def test_what_is_not_in_the_log_fails_or_is_cut_with_a_warning(
    cluster: Cluster, start: int, end: int, kept: tuple[int, int] | None
) -> None:  # M: S-10
    topic_id = TopicId(cluster.describe("t").topic_id)
    cluster.submit(MoveLogStart(topic_id, PartitionIndex(0), Offset(4)))
    asked = {
        "assign": '{"t":[0]}',
        "startingOffsets": f'{{"t":{{"0":{start}}}}}',
        "endingOffsets": f'{{"t":{{"0":{end}}}}}',
    }
    with pytest.raises(
        OffsetOutOfRange, match=r"the readable range is \[4, 10\); failOnDataLoss=false reads the existing records"
    ):
        planned(cluster, **asked)
    assert ranges(cluster, failOnDataLoss="false", **asked) == ([("t", 0, *kept)] if kept else [])
    (warning,) = planned(cluster, failOnDataLoss="false", **asked).warnings
    assert "only the existing records are read" in warning


@given(
    start=st.integers(0, 10),
    length=st.integers(0, 10),
    records=st.none() | st.integers(1, 12),
    size_bytes=st.integers(1, 5_000),
    tasks=st.none() | st.integers(1, 9),
)
@settings(max_examples=60)
def test_tasks_hold_every_offset_once_and_in_order(
    start: int, length: int, records: int | None, size_bytes: int, tasks: int | None
) -> None:
    with new_cluster() as cluster:
        cluster.create_topic("t", partitions=2)
        for first in (0, 5):
            append(cluster, [0] * 5 + [1] * 5, [*range(first, first + 5)] * 2)
        end = min(10, start + length)
        options: dict[str, object] = {"maxBytesPerPartition": size_bytes}
        if records is not None:
            options["maxRecordsPerPartition"] = records
        if tasks is not None:
            options["minPartitions"] = tasks
        both = '{"t":{"0":%d,"1":%d}}'
        plan = planned(
            cluster, subscribe="t", startingOffsets=both % (start, start), endingOffsets=both % (end, end), **options
        )
        found = [
            (each.partition, offset) for task in plan.tasks for each in task for offset in range(each.start, each.end)
        ]
        assert found == [(partition, offset) for partition in range(2) for offset in range(start, end)]
        if records is not None:
            assert all(sum(each.end - each.start for each in task) <= records for task in plan.tasks)
        assert all(
            part.slice.start < each.end and part.slice.end > each.start
            for task in plan.tasks
            for each in task
            for part in each.slices
        )


def test_a_bulk_read_of_small_records_is_several_tasks_and_a_small_read_is_one() -> None:
    with new_cluster() as made:
        made.create_topic("t", partitions=6)
        for count, tasks in ((1_000, 1), (1_499_000, 2)):
            made.append("t", pa.table({"value": pa.repeat(b"small", count)}))
            plan = planned(made, subscribe="t")
            assert len(plan.tasks) == tasks
            assert all(sum(each.end - each.start for each in task) <= 1_000_000 for task in plan.tasks)


# M: I-03
def test_the_whole_plan_stands_at_one_chain_position(cluster: Cluster) -> None:
    plan = planned(cluster, subscribe="t", maxRecordsPerPartition=1)
    assert {each.planned_at for task in plan.tasks for each in task} == {plan.planned_at}


@pytest.mark.parametrize("times", [1, 2])
def test_objects_that_go_during_a_look_up_by_time_are_looked_up_again_before_they_are_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """One holder lacks an object, and the other one is down."""
    gone, down = HolderFailure("b", KeyNotFound("gone")), HolderFailure("c", StoreUnavailable("no answer"))
    lost = iter([gone] * times)

    def found(slices: Sequence[SliceToRead], *given: Any) -> Offset | None:
        for each in lost:
            raise NoHolderAnswers(slices[0], "t", Offset(0), [each, down])
        return first_in(slices, *given)

    monkeypatch.setattr("sparklog.log.read.time_lookup.first_in", found)
    asked = {"cluster": "/elsewhere", "assign": '{"t":[0]}', "startingTimestamp": hour(4)}
    monkeypatch.setattr("sparklog.spark.read.batch_reader.shared", lambda *_: cluster.connection)
    reader = BatchReader(parse_read_options(asked), records_schema(["offset"]))
    if times == 2:
        with pytest.raises(StoreUnavailable, match="gone"):
            reader.partitions()
    else:
        (task,) = reader.partitions()
        (planned_range,) = msgspec.msgpack.decode(task.value, type=TaskToRead).ranges
        assert (planned_range.start, planned_range.end) == (4, 10)


def test_tasks_know_the_zone_of_the_reader_and_those_of_the_stores_that_can_be_reached(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, zone in (("b", "east"), ("c", "west")):
        cluster.submit(RegisterStore(NewStore(StoreId(name), f"memory://{name}", f"i-{name}", zone)))
    cluster.submit(FenceStore(StoreId("c")))
    monkeypatch.setattr("sparklog.spark.read.batch_reader.shared", lambda *_: cluster.connection)
    asked = {"cluster": "/elsewhere", "subscribe": "t", "kafka.client.rack": "west"}
    (task,) = BatchReader(parse_read_options(asked), records_schema(["offset"])).partitions()
    addresses = msgspec.msgpack.decode(task.value, type=TaskToRead).addresses
    assert (addresses.zone, addresses.zones) == ("west", {"local": "", "b": "east"})
