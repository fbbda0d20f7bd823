"""Consumers of a group: shares, fences of generations, restarts, and many at once."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.consumer.listener import RebalanceListener
from sparklog.core.commands import LeaveGroup
from sparklog.core.errors import (
    IllegalGeneration,
    InvalidInput,
    SparklogError,
    UnknownMemberId,
)
from sparklog.core.groups.membership import GroupGeneration
from tests.client.orders import P0, P1, P2, RECORDS, cluster, committed, consumer, settle, values
from tests.coordinator.served_coordinator import served_coordinator
from tests.kit.hand_clock import HandClock
from tests.kit.log import fill

__all__ = ["cluster"]

TOPICS = ("orders", "payments", "returns")


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
    clock = HandClock()
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
    cluster.submit(LeaveGroup("billing", member.member))
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
    clock = HandClock()
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


# ---- many at once ---------------------------------------------------------------------------------------


@dataclass
class Readers:
    """Threads with a consumer of their own each, and what they have read: generation, topic, partition, offset."""

    url: str
    threads: list[threading.Thread] = field(default_factory=list)
    read: list[tuple[GroupGeneration | None, str, int, int]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)  # held to add to `read`
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
        with self.turn:
            is_new = bool(found) and generation not in {row[0] for row in self.read}
            self.read.extend((generation, *place, each.offset) for place, records in found.items() for each in records)
            if is_new:
                self.new_generation.set()
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
            writer = threading.Thread(target=fill, args=(cluster, 1, 1))
            writer.start()
            assert list(reader.poll(60_000)) == [P1]
            writer.join()
        assert committed(cluster) == {P0: 2, P1: 1}
