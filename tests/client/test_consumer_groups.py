"""Consumers of a group: shares, commits and their fences, restarts, and orders of processing and committing."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.consumer.listener import RebalanceListener
from sparklog.core.commands import CommitOffsets, LeaveGroup, Submission
from sparklog.core.consumer_positions import GroupGeneration
from sparklog.core.errors import (
    IllegalGeneration,
    InvalidInput,
    InvalidSessionTimeout,
    OffsetOutOfRange,
    SparklogError,
    TryAgain,
    UnknownMemberId,
    Wakeup,
)
from sparklog.core.records import CommandResult
from sparklog.core.types import Place
from tests.coordinator.served_coordinator import served_coordinator
from tests.faults.faulty_store import VirtualClock

P0, P1, P2 = (("orders", partition) for partition in range(3))
RECORDS = 6  # in each partition
TOPICS = ("orders", "payments", "returns")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic orders with three partitions of 6 records."""
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url)
    with sparklog.connect(url) as made:
        made.create_topic("orders", partitions=3)
        for partition in range(3):
            fill(made, partition, RECORDS)
        yield made


def fill(cluster: Cluster, partition: int, records: int, *, first: int = 0) -> None:
    values = [f"{partition}-{at}" for at in range(first, first + records)]
    partitions = pa.array([partition] * records, pa.int32())
    cluster.append("orders", pa.table({"value": values, "partition": partitions}))


def consumer(cluster: Cluster, clock: VirtualClock | None = None, **options: object) -> Consumer:
    """A consumer of the group billing in a process of its own, whose time goes by in pauses only."""
    other = sparklog.connect(cluster.connection.url)
    other.connection.committer.clock = clock or VirtualClock()
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    return other.consumer("orders", group="billing", **given)  # type: ignore[arg-type]


def settle(*consumers: Consumer) -> list[tuple[Place, ...]]:
    """Let each take over its share, without reading."""
    for _ in range(2):
        for each in consumers:
            each._reading._look_due_ms = 0
            each._reading.tend()
    return [each.assignment() for each in consumers]


def values(reader: Consumer, most: int = 500) -> list[str]:
    return [(record.value or b"").decode() for records in reader.poll(max_records=most).values() for record in records]


def committed(cluster: Cluster) -> dict[Place, int]:
    return {place: row.offset for place, row in cluster.committed("billing").items()}


# ---- shares ---------------------------------------------------------------------------------------------


def test_two_consumers_share_and_one_takes_over_what_the_other_leaves(cluster: Cluster) -> None:  # M: I-07
    a, b = consumer(cluster), consumer(cluster)
    shares = settle(a, b)
    assert sorted(place for share in shares for place in share) == [P0, P1, P2]
    assert {len(share) for share in shares} == {1, 2}
    seen = values(a)
    assert {value[0] for value in seen} == {str(partition) for _, partition in shares[0]}
    a.commit()
    a.close()
    assert settle(b) == [(P0, P1, P2)]
    assert sorted(seen + values(b)) == sorted(f"{partition}-{at}" for partition in range(3) for at in range(RECORDS))
    b.close()
    assert cluster.describe_group("billing").members == ()


def test_a_partition_that_stays_goes_on_where_it_was_and_another_from_what_is_committed(cluster: Cluster) -> None:
    a = consumer(cluster)
    assert len(values(a, 3)) == 3
    first = next(place for place in a.assignment() if a.position(place) == 3)
    b = consumer(cluster)
    settle(a, b)
    if first in a.assignment():
        assert a.position(first) == 3
    else:
        assert b.position(first) == 0
    a.close()
    b.close()


def test_a_consumer_that_was_replaced_commits_nothing(cluster: Cluster) -> None:
    a = consumer(cluster)
    values(a)
    b = consumer(cluster)
    settle(b)
    with pytest.raises(IllegalGeneration):
        a.commit()
    with pytest.raises(IllegalGeneration):
        a.commit({P0: 1})
    failures: list[Exception | None] = []
    a.commit_async({P0: 1}, lambda offsets, error: failures.append(error))
    a._reading.commits.wait()
    settle(a)
    assert [type(error) for error in failures] == [IllegalGeneration]
    assert committed(cluster) == {}
    (lost,) = {P0, P1, P2} - set(a.assignment()) if len(b.assignment()) == 1 else {b.assignment()[0]}
    with pytest.raises(InvalidInput, match="wanted a partition of this consumer"):
        a.commit({lost: 6})
    a.commit()
    assert set(committed(cluster)) == set(a.assignment())
    a.close()
    b.close()


def test_a_commit_in_the_callback_of_a_rebalance_is_of_the_generation_before(cluster: Cluster) -> None:
    """The member knows the next generation by then; under it, the commit would take what others have by now."""
    refused: list[SparklogError] = []

    class Late(RebalanceListener):
        def on_partitions_revoked(self, partitions: object) -> None:
            try:
                a.commit()
            except IllegalGeneration as error:
                refused.append(error)

    a = consumer(cluster)
    a.subscribe("orders", listener=Late())
    values(a)
    b = consumer(cluster)
    settle(b, a)
    assert len(refused) == 1
    assert committed(cluster) == {}
    a.close()
    assert len(refused) == 1
    assert committed(cluster), "before it leaves, its commit counts"
    b.close()


def test_one_that_was_silent_for_a_session_begins_again_from_what_others_committed(cluster: Cluster) -> None:
    clock = VirtualClock()
    a, b = consumer(cluster), consumer(cluster, clock)
    settle(a, b)
    values(a)
    for _ in range(4):
        clock.pause(15_000)
        b.poll()
    assert b.assignment() == (P0, P1, P2)
    values(b)
    b.commit()
    with pytest.raises(UnknownMemberId):
        a.commit()
    settle(a, b)
    assert all(a.position(place) == RECORDS for place in a.assignment())
    assert values(a) == []
    a.close()
    b.close()


def test_one_that_was_evicted_moves_nothing_in_a_group_that_was_created_again(cluster: Cluster) -> None:
    """The new group is at a generation of the same number, with the same consumer in it."""
    refused: list[SparklogError] = []

    class Late(RebalanceListener):
        def on_partitions_revoked(self, partitions: object) -> None:
            try:
                reader.commit()
            except UnknownMemberId as error:
                refused.append(error)

    reader = consumer(cluster)
    reader.subscribe("orders", listener=Late())
    values(reader)
    under_way = reader._reading._shares.prepared(
        reader._reading.positions.to_commit(), reader._reading.positions.share, reader._reading.positions.generation, ""
    )
    (member,) = cluster.describe_group("billing").members
    cluster.submit(LeaveGroup("billing", member.member_id))
    cluster.delete_group("billing")
    settle(reader)
    assert len(refused) == 1
    assert cluster.describe_group("billing").generation == 1
    with pytest.raises(UnknownMemberId):
        under_way()
    assert committed(cluster) == {}
    assert len(values(reader)) == 3 * RECORDS
    reader.close()


def test_the_topics_of_a_pattern_are_shared_as_they_come(cluster: Cluster) -> None:
    clock = VirtualClock()
    other = sparklog.connect(cluster.connection.url)
    other.connection.committer.clock = clock
    with other.consumer(pattern="more.*", group="more", auto_offset_reset="earliest") as reader:
        assert reader.poll(1_000) == {}
        assert cluster.groups() == []
        cluster.create_topic("more-1")
        cluster.append("more-1", pa.table({"value": ["x"]}))
        assert len(reader.poll(10_000)) == 1
        cluster.create_topic("more-2")
        cluster.append("more-2", pa.table({"value": ["y"]}))
        assert list(reader.poll(10_000)) == [("more-2", 0)]
        assert cluster.describe_group("more").members[0].topics == ("more-1", "more-2")


def test_a_forked_child_neither_reads_nor_leaves_for_its_parent(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count commits as its parent does, so of two with one number one would be taken for a repeat."""
    with consumer(cluster) as reader:
        values(reader, 4)
        with monkeypatch.context() as in_child:
            in_child.setattr(os, "getpid", lambda: -1)
            for call in (reader.poll, reader.commit, reader.unsubscribe, lambda: next(iter(reader))):
                with pytest.raises(InvalidInput, match="belongs to the process that was forked"):
                    call()
            reader.close()
        reader.commit()
        assert len(cluster.describe_group("billing").members) == 1
    assert sum(committed(cluster).values()) == 4


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
    clock = VirtualClock()
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
    clock = VirtualClock()
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
    clock = VirtualClock()
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
            raise TryAgain("nobody coordinates the cluster")
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
        clock = VirtualClock()
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


# ---- many at once ---------------------------------------------------------------------------------------


@dataclass
class Readers:
    """Threads with a consumer of their own each, and what they have read: generation, topic, partition, offset."""

    url: str
    threads: list[threading.Thread] = field(default_factory=list)
    read: list[tuple[GroupGeneration | None, str, int, int]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    new_generation: threading.Event = field(default_factory=threading.Event)
    wanted: int | None = None  # once it is known
    done: threading.Event = field(default_factory=threading.Event)

    def start(self, most_polls: int | None = None) -> None:
        self.threads.append(threading.Thread(target=self._run, args=(most_polls,)))
        self.threads[-1].start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(200)

    def _run(self, most_polls: int | None) -> None:
        try:
            with (
                sparklog.connect(self.url) as cluster,
                cluster.consumer(
                    *TOPICS,
                    group="g",
                    auto_offset_reset="earliest",
                    enable_auto_commit=False,
                    heartbeat_interval_ms=20,
                    max_poll_records=40,
                ) as consumer,
            ):
                for _ in range(most_polls or 1_000_000):
                    self._poll(consumer)
                    if self.done.is_set():
                        return
        except BaseException as error:
            self.errors.append(error)
            self.new_generation.set()
            self.done.set()

    def _poll(self, consumer: Consumer) -> None:
        found = consumer.poll(20)
        generation = consumer._reading.positions.generation
        if found and generation not in {row[0] for row in self.read}:
            self.new_generation.set()
        self.read.extend((generation, *place, each.offset) for place, records in found.items() for each in records)
        with contextlib.suppress(IllegalGeneration, UnknownMemberId):
            consumer.commit()
        if self.wanted is not None and len({row[1:] for row in self.read}) == self.wanted:
            self.done.set()


def test_threads_share_three_topics_while_members_come_and_go_under_load(tmp_path: Path) -> None:  # M: I-07
    """Each record is read, and in one generation by one member only, once; and only what was read is committed."""
    init_cluster(str(tmp_path))
    written = 0
    keys = [str(key) for key in range(25)]
    readers = Readers(str(tmp_path))
    with sparklog.connect(str(tmp_path)) as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic, partitions=2)
        for most_polls in (None, None, 8, 15):  # the last two leave again
            readers.new_generation.clear()
            readers.start(most_polls)
            while not readers.new_generation.wait(0.02):
                for topic in TOPICS:
                    cluster.append(topic, pa.table({"value": keys, "key": keys}))
                    written += len(keys)
        readers.wanted = written
        readers.join()
        assert readers.errors == []
        at = {place: row.offset for place, row in cluster.committed("g").items()}
    read = readers.read
    repeated = [row for row, count in Counter(read).items() if count > 1]
    assert repeated == [], "in one generation, each record is read once"
    assert len({row[1:] for row in read}) == written
    assert len({row[0] for row in read}) >= 4
    for (topic, partition), offset in at.items():
        assert {row[3] for row in read if row[1:3] == (topic, partition)} >= set(range(offset)), "committed, but unread"


def test_through_a_coordinator(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    with served_coordinator(str(tmp_path)) as coordinator, sparklog.connect(coordinator.address) as cluster:
        cluster.create_topic("orders", partitions=2)
        fill(cluster, 0, 2)
        with cluster.consumer("orders", group="billing", auto_offset_reset="earliest") as reader:
            assert values(reader) == ["0-0", "0-1"]
            threading.Thread(target=fill, args=(cluster, 1, 1)).start()
            assert list(reader.poll(30_000)) == [P1]
        assert committed(cluster) == {P0: 2, P1: 1}
