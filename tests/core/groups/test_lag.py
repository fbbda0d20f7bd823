"""The lag of all groups at once is that of each group partition by partition, in records and in time."""

from __future__ import annotations

import random

import msgspec
import pytest

from sparklog.core.commands import CommitOffsets, CreateTopic, JoinGroup, MoveLogStart
from sparklog.core.describe.group_rows import group_partition_rows
from sparklog.core.groups.lag import GroupLag, group_lags
from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.state import ClusterState
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, PartitionIndex, Slice, TopicId, TopicPartition
from tests.core.decided_log import TOPIC, A, DecidedLog, place

CHAIN = "c" * 32


def commit(log: DecidedLog, group: str, *offsets: tuple[int, int], topic_id: int = TOPIC) -> None:
    """Commit these offsets, by partition."""
    rows = (
        OffsetToCommit(TopicId(topic_id), PartitionIndex(at), Offset(offset), LeaderEpoch(0)) for at, offset in offsets
    )
    log.submit(CommitOffsets(CHAIN, group, tuple(rows)))


def lag_of(log: DecidedLog, group: str) -> GroupLag:
    return group_lags(log.state).of(log.state.groups[group])


def slow_twin(state: ClusterState, group: str) -> tuple[int, int, int | None]:
    """Sum, largest, and since when, by the slices of each partition."""
    lags, since = [], []
    for each in group_partition_rows(state, state.groups[group]):
        if each.committed is None or each.lag is None:
            continue
        lags.append(each.lag)
        if each.lag:
            unread = OffsetRange(max(each.log_start, each.committed), each.end)
            at = TopicPartition(state.topic_ids[each.topic], each.partition)
            since.append(next(state.slices.walk(at, unread)).append_time_ms)
            assert each.unread_since_ms == since[-1]
    return sum(lags), max(lags, default=0), min(since, default=None)


def test_lag_counts_from_the_log_start_to_the_high_watermark() -> None:
    log = DecidedLog()
    for now_ms in (1_000, 2_000, 3_000):
        log.now_ms = now_ms
        log.append(10, 0)
        log.append(5, 1)
    commit(log, "g", (0, 4), (1, 10))
    lag = lag_of(log, "g")
    assert (lag.lag_records, lag.max_lag_records, lag.unread_since_ms) == (31, 26, 1_000)
    (topic,) = lag.topics
    assert (topic.topic, topic.partitions, topic.offset) == ("orders", 2, 14)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(20)))
    assert lag_of(log, "g").lag_records == 15, "nobody can read what is below the log start"
    assert lag_of(log, "g").unread_since_ms == 3_000
    commit(log, "g", (0, 30), (1, 15))
    lag = lag_of(log, "g")
    assert (lag.lag_records, lag.max_lag_records, lag.unread_since_ms) == (0, 0, None)


def test_a_group_without_offsets_has_no_lag() -> None:
    log = DecidedLog()
    log.append(10)
    assert group_lags(log.state).most_behind(5) == []
    log.submit(JoinGroup("g", "m", ("orders",), 45_000))
    assert group_lags(log.state).most_behind(5) == [GroupLag(log.state.groups["g"])]
    assert lag_of(log, "g").unread_since_ms is None


def test_in_a_sealed_segment_the_time_is_estimated_by_timestamps() -> None:
    """Only the newest append time is known: without an estimate, each roll would seem to bring a group nearer."""
    log = DecidedLog(now_ms=1_000)
    log.append(10)
    log.now_ms = 9_000
    log.append(10)
    log.submit(log.swap_of(0, 20))
    commit(log, "g", (0, 10))
    (sealed,) = log.slices()
    assert since(log, sealed, 1_000_000, 5_000_000) == 3_000
    assert since(log, sealed, 8_000_000, 20_000_000) == sealed.append_time_ms == 9_000
    for backfilled_us in (0, -(2**62)):  # its records are older than the topic
        assert since(log, sealed, backfilled_us, backfilled_us + 1) == 1_000


def test_a_sealed_segment_is_not_older_than_the_one_before_it() -> None:
    log = DecidedLog(now_ms=1_000)
    log.now_ms = 5_000
    log.append(10)
    log.now_ms = 9_000
    log.append(10)
    log.submit(log.swap_of(10, 20))
    commit(log, "g", (0, 10))
    _, sealed = log.slices()
    assert since(log, sealed, 0, 1) == 5_000


def since(log: DecidedLog, sealed: Slice, first_us: int, last_us: int) -> int | None:
    """Since when the group has unread records if those of this slice have these timestamps."""
    state = log.state.fork()
    state.slices.remove(place(), OffsetRange(sealed.start, sealed.end))
    state.slices.add([msgspec.structs.replace(sealed, min_timestamp_us=first_us, max_timestamp_us=last_us)])
    return group_lags(state).of(state.groups["g"]).unread_since_ms


@pytest.mark.parametrize("seed", range(5))
def test_all_groups_at_once_are_as_one_by_one(seed: int) -> None:
    dice, log = random.Random(seed), DecidedLog()
    log.submit(CreateTopic("payments", assignment=((A,),)))
    for at in range(30):
        log.now_ms = 1_000 + at
        log.append(dice.randint(1, 9), dice.randint(0, 1))
        partition = dice.randint(0, 1)
        offset = dice.randint(0, log.partition(partition).high_watermark)
        commit(log, f"g{dice.randint(0, 7)}", (partition, offset))
    commit(log, "other", (0, 0), topic_id=TOPIC + 1)
    lags = group_lags(log.state)
    for name, group in log.state.groups.items():
        lag = lags.of(group)
        assert (lag.lag_records, lag.max_lag_records, lag.unread_since_ms) == slow_twin(log.state, name)
    every = lags.most_behind(100)
    assert {lag.group.name for lag in every} == set(log.state.groups)
    order = [(lag.unread_since_ms or 10**9, -lag.lag_records if lag.unread_since_ms else 0) for lag in every]
    assert order == sorted(order)
    assert lags.most_behind(3) == every[:3]
    assert lags.most_behind(0) == []
    for topic_id in log.state.topics:
        known = [(lag.group.name, topic) for lag in every for topic in lag.topics]
        of_topic = [(name, topic) for name, topic in known if topic.topic == log.state.topics[topic_id].name]
        shown = lags.in_topic(topic_id, 100)
        assert {(lag.group.name, lag.topics) for lag in shown} == {(name, (topic,)) for name, topic in of_topic}
        since = [lag.unread_since_ms or 10**9 for lag in shown]
        assert since == sorted(since)
        assert lags.in_topic(topic_id, 2) == shown[:2]
