"""Commits of a consumer: what they survive, who makes them, and orders of processing and committing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.core.commands import CommitOffsets, Submission
from sparklog.core.errors import (
    InvalidInput,
    InvalidSessionTimeout,
    OffsetOutOfRange,
    TryAgain,
    UnknownMemberId,
    Wakeup,
)
from sparklog.core.records import CommandResult
from sparklog.core.types import Place
from tests.client.orders import P0, P1, P2, RECORDS, cluster, committed, consumer, settle, values
from tests.kit.hand_clock import HandClock
from tests.kit.log import fill

__all__ = ["cluster"]


# ---- commits --------------------------------------------------------------------------------------------


def test_offsets_survive_a_restart(cluster: Cluster) -> None:  # M: I-07
    seen = []
    for most in (4, 5, 500):
        with consumer(cluster) as reader:
            seen += values(reader, most)
            reader.commit(metadata="by a test")
            assert sum(reader.committed(place) or 0 for place in (P0, P1, P2)) == len(seen)
    assert sorted(seen) == sorted(f"{partition}-{at}" for partition in range(3) for at in range(RECORDS))
    assert {row.metadata for row in cluster.committed("billing").values()} == {"by a test"}


def test_a_call_commits_what_the_calls_before_it_have_handed_out(cluster: Cluster) -> None:
    clock = HandClock()
    reader = consumer(cluster, clock, enable_auto_commit=True, auto_commit_interval_ms=1_000)
    values(reader, 4)
    assert committed(cluster).get(P0) in (None, 0), "they may not have been processed"
    clock.pause(1_000)
    values(reader, 1)
    reader._reading.commits.wait()
    assert committed(cluster)[P0] == 4
    clock.pause(500)
    reader.poll()
    reader._reading.commits.wait()
    assert sum(committed(cluster).values()) == 4, "the interval is not over"
    reader.close()
    assert sum(committed(cluster).values()) == 3 * RECORDS


def test_a_topic_that_is_deleted_does_not_stop_a_consumer_that_commits_by_itself(cluster: Cluster) -> None:
    clock = HandClock()
    reader = consumer(cluster, clock, enable_auto_commit=True, auto_commit_interval_ms=1_000)
    cluster.create_topic("more")
    cluster.append("more", pa.table({"value": ["x"]}))
    reader.subscribe(["orders", "more"])
    assert len(values(reader)) == 3 * RECORDS + 1
    cluster.delete_topic("more")
    for _ in range(2):  # the first commit names the topic that is gone
        clock.pause(1_000)
        assert reader.poll() == {}
        assert reader.assignment() == (P0, P1, P2)
        reader._reading.commits.wait()
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}
    fill(cluster, 0, 1, first=RECORDS)
    assert values(reader) == ["0-6"]
    cluster.delete_topic("orders")
    reader.close()


def test_after_an_error_nothing_is_committed_that_may_not_be_processed(cluster: Cluster) -> None:
    def fail() -> None:
        with consumer(cluster, enable_auto_commit=True) as reader:
            for record in reader:
                raise ValueError(record.offset)

    with pytest.raises(ValueError, match="0"):
        fail()
    assert sum(committed(cluster).values()) == 0
    assert cluster.describe_group("billing").members == ()

    def wake_up() -> None:
        with consumer(cluster, enable_auto_commit=True) as reader:
            values(reader, 4)
            reader.wakeup()
            reader.poll()

    with pytest.raises(Wakeup):
        wake_up()
    assert sum(committed(cluster).values()) == 4, "a wakeup is no error"


def test_asynchronous_commits_keep_their_order_and_are_reported_by_later_calls(cluster: Cluster) -> None:
    reported: list[tuple[Mapping[Place, int], Exception | None]] = []
    with consumer(cluster) as reader:
        values(reader)
        for offset in (1, 2, 3):
            reader.commit_async({P0: offset}, lambda offsets, error: reported.append((offsets, error)))
        assert reported == []
        reader.commit({P1: 4})
        assert reported == [({P0: 1}, None), ({P0: 2}, None), ({P0: 3}, None)]
        with pytest.raises(InvalidInput):
            reader.commit_async({("more", 0): 1})
    assert committed(cluster) == {P0: 3, P1: 4}


def test_a_commit_beyond_the_log_is_refused(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    with consumer(cluster) as reader:
        values(reader, 1)
        with pytest.raises(OffsetOutOfRange):
            reader.commit({P0: 7})
        with caplog.at_level(logging.WARNING, "sparklog"):
            reader.commit_async({P0: 7})
            reader._reading.commits.wait()
        assert "OFFSET_OUT_OF_RANGE" in caplog.text
        reader.commit()
        reader.commit()
    assert sum(committed(cluster).values()) == 1


def test_a_group_that_begins_at_the_end_commits_that_at_once(cluster: Cluster) -> None:
    """Else a consumer that crashes before its first commit would leave what came meanwhile to nobody."""
    crashed = consumer(cluster, auto_offset_reset="latest")
    assert values(crashed) == []
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}
    fill(cluster, 1, 2, first=RECORDS)
    assert values(crashed) == ["1-6", "1-7"]
    clock = HandClock()
    with consumer(cluster, clock, auto_offset_reset="latest") as reader:
        for _ in range(4):
            clock.pause(15_000)
            settle(reader)
        assert values(reader) == ["1-6", "1-7"]


def test_an_end_that_was_not_committed_is_looked_up_again(cluster: Cluster) -> None:
    a, b = (consumer(cluster, auto_offset_reset="latest") for _ in range(2))
    a._reading._shares.look()
    a._reading.take_share()
    settle(b)  # another generation, before a has begun
    a._reading._begin()
    assert a._reading.positions.is_undecided
    settle(a, b)
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}
    a.close()
    b.close()


def test_an_end_whose_commit_failed_is_committed_before_anything_is_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what is handed out after it would be nobody's if the consumer crashed before its first commit."""
    reader = consumer(cluster, auto_offset_reset="latest")
    committer = reader._connection.committer
    submit = committer.submit

    def fails(submission: Submission, *more: int) -> CommandResult:
        if isinstance(submission.command, CommitOffsets) and submission.command.offsets:
            raise TryAgain("no coordinator leads the cluster")
        return submit(submission, *more)

    with monkeypatch.context() as patch:
        patch.setattr(committer, "submit", fails)
        for _ in range(2):
            with pytest.raises(TryAgain):
                reader.poll()
    assert reader.poll() == {}
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}
    reader.close()


def test_partitions_by_hand_commit_to_a_group_without_members(cluster: Cluster) -> None:
    with cluster.consumer(group="billing", auto_offset_reset="none", enable_auto_commit=False) as reader:
        reader.assign([P2])
        with pytest.raises(OffsetOutOfRange, match="orders-2: found no committed offset"):
            reader.poll()
        reader.seek(P2, 4)
        assert values(reader) == ["2-4", "2-5"]
        reader.commit()
    assert committed(cluster) == {P2: 6}
    with cluster.consumer(group="billing", enable_auto_commit=False) as reader, consumer(cluster) as member:
        reader.assign([P2])
        settle(member)
        reader.seek(P2, 0)
        with pytest.raises(UnknownMemberId, match="has 1 active member"):
            reader.commit()


def test_a_session_that_the_cluster_does_not_allow_is_refused(cluster: Cluster) -> None:
    reader = consumer(cluster, session_timeout_ms=5_000, heartbeat_interval_ms=1)
    with pytest.raises(InvalidSessionTimeout):
        reader.poll()
    reader.close()


# ---- orders of processing and committing ----------------------------------------------------------------


class Crash(Exception):
    """The process dies here."""


def commit_then_process(reader: Consumer, done: list[str], crashes: bool) -> None:
    batch = values(reader, 2)
    reader.commit()
    done += batch[:1]
    if crashes:
        raise Crash
    done += batch[1:]


def process_then_commit(reader: Consumer, done: list[str], crashes: bool) -> None:
    done += values(reader, 2)
    if crashes:
        raise Crash
    reader.commit()


@pytest.mark.parametrize(
    ("life", "wanted"),
    [
        (commit_then_process, [0, 1, 2, 4, 5]),  # at most once: 3 is lost
        (process_then_commit, [0, 1, 2, 3, 2, 3, 4, 5]),  # at least once: 2 and 3 are repeated
    ],
)
def test_the_order_of_processing_and_committing_decides_what_a_crash_costs(  # M: I-07
    cluster: Cluster, life: Callable[[Consumer, list[str], bool], None], wanted: list[int]
) -> None:
    done: list[str] = []
    for number in range(4):
        clock = HandClock()
        reader = consumer(cluster, clock)
        for _ in range(4):  # until it has outlived the one that crashed
            clock.pause(15_000)
            settle(reader)
        reader.pause(P1, P2)
        try:
            life(reader, done, number == 1)
        except Crash:
            continue  # nothing is left of it but its membership
        reader.close()
    assert done == [f"0-{at}" for at in wanted]
