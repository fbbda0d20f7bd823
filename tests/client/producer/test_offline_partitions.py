"""Partitions without a leader: the others go on, and what waited is written once there is one."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.producer import sending
from sparklog.client.producer.record_future import RecordFuture
from sparklog.core.errors import OutcomeUnknown, SparklogError
from sparklog.core.records import CommandResult
from tests.client.producer.test_producer import LONG_MS, WAIT_S, entries, sent
from tests.client.replicated_cluster import come_back
from tests.kit.log import new_cluster

AT_ONCE_S = 20.0  # of a delivery_timeout_ms of two minutes


def test_an_offline_partition_does_not_hold_up_the_others() -> None:  # M: P-09
    with new_cluster("ab") as cluster:
        cluster.create_topic("t", assignment=["a", "b"])
        cluster.fence_store("a")
        with cluster.producer(linger_ms=1) as producer:
            waits = [producer.send("t", f"{n}", partition=0) for n in range(3)]
            others = [producer.send("t", f"{n}", partition=1) for n in range(3)]
            assert [future.result(WAIT_S).offset for future in others] == [0, 1, 2]
            more = [producer.send("t", f"{n}", partition=n % 2) for n in range(3, 7)]
            assert more[0].result(WAIT_S).offset == 3
            assert not any(future.done() for future in waits)
            cluster.add_store("a", f"{cluster.connection.url}-a")
            assert [future.result(WAIT_S).offset for future in waits] == [0, 1, 2]
        assert sent(cluster, "t") == {0: ["0", "1", "2", "4", "6"], 1: ["0", "1", "2", "3", "5"]}


def test_what_waited_for_a_leader_is_written_together_once_there_is_one() -> None:  # M: P-09
    with new_cluster("ab") as cluster:
        cluster.create_topic("t", assignment=["a", "b"])
        cluster.fence_store("a")
        with cluster.producer(linger_ms=0) as producer:
            waits: list[RecordFuture] = []
            for n in range(30):  # a flush each
                waits += [producer.send("t", f"{n}/{part}", partition=0) for part in range(2)]
                assert producer.send("t", f"{n}", partition=1).result(WAIT_S).offset == n
            before = entries(cluster)
            cluster.add_store("a", f"{cluster.connection.url}-a")
            assert [future.result(WAIT_S).offset for future in waits] == list(range(60))
            assert entries(cluster) - before < 10
        assert sent(cluster, "t")[0] == [f"{n}/{part}" for n in range(30) for part in range(2)]


def test_records_without_a_key_go_where_there_is_a_leader() -> None:
    with new_cluster("ab") as cluster:
        cluster.create_topic("t", assignment=["a", "b", "a"])
        cluster.fence_store("a")
        with cluster.producer(linger_ms=LONG_MS // 2) as producer:
            for n in range(4):
                producer.send("t", f"{n}")
                producer.flush()
        assert sent(cluster, "t") == {1: ["0", "1", "2", "3"]}


class FlickeringStore:
    """Store a, which comes and goes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self.is_online, self._stays = True, False

    def switch(self, *, online: bool, stays: bool = False) -> None:
        with self._lock:
            if self._stays:  # a commit may still be under way, and lose the store
                return
            self._stays = stays
            if online and not self.is_online:
                come_back(self._cluster, "a")
            elif self.is_online and not online:
                self._cluster.fence_store("a")
            self.is_online = online


class LossyCommits:
    """Commits that lose commands and replies at random, and now and then store a with them.

    A command that got lost may arrive later.
    """

    def __init__(self, dice: random.Random, monkeypatch: pytest.MonkeyPatch, store: FlickeringStore) -> None:
        self._dice = dice
        self._commit = sending.commit_append
        self._store = store
        self._strays: list[Callable[[], CommandResult]] = []
        monkeypatch.setattr(sending, "commit_append", self)

    def __call__(self, *arguments: Any, **more: Any) -> CommandResult:
        if self._dice.random() < 0.1:
            self.a_stray_arrives()
        fate = self._dice.random()
        commit = partial(self._commit, *arguments, **more)
        if fate < 0.1:
            self._strays.append(commit)
            raise self._unknown("the command got lost")
        result = commit()
        if fate < 0.2:
            raise self._unknown("the reply got lost")
        return result

    def a_stray_arrives(self) -> bool:
        if not self._strays:
            return False
        with suppress(SparklogError):
            self._strays.pop()()
        return True

    def _unknown(self, why: str) -> OutcomeUnknown:
        if self._dice.random() < 0.7:
            self._store.switch(online=False)
        return OutcomeUnknown(why)


def await_written(futures: list[RecordFuture]) -> None:
    """They wait for no partition without a leader."""
    for future in futures:
        assert future.result(AT_ONCE_S).offset is not None


def history(seed: int, acks: str | int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store a comes and goes, with partitions 0 and 2; commits lose commands and replies."""
    dice = random.Random(seed)
    with new_cluster("ab") as cluster:
        cluster.create_topic("t", assignment=["a", "b", "a"])
        store = FlickeringStore(cluster)
        with monkeypatch.context() as patch, cluster.producer(acks=acks, linger_ms=dice.choice((0, 10))) as producer:
            commits = LossyCommits(dice, patch, store)
            futures: list[RecordFuture] = []
            for n in range(90):
                futures.append(producer.send("t", f"{n:04d}", partition=n % 3))
                if n % 3 == 2 and dice.random() < 0.6:  # what is sent next is another flush
                    await_written(futures[1::3])
                if dice.random() < (0.04 if store.is_online else 0.2):
                    store.switch(online=not store.is_online)
            await_written(futures[1::3])
            patch.undo()
            store.switch(online=True, stays=True)
        while commits.a_stray_arrives():
            pass
        assert [future.exception(0) for future in futures] == [None] * len(futures)
        assert sent(cluster, "t") == {p: [f"{n:04d}" for n in range(p, 90, 3)] for p in range(3)}
        offsets = {p: iter(range(30)) for p in range(3)}
        for n, future in enumerate(futures):
            assert future.result().offset == next(offsets[n % 3])


@pytest.mark.parametrize("acks", ["all", 1])
def test_order_and_uniqueness_hold_while_partitions_lose_their_leader_and_get_it_back(
    acks: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:  # M: P-09 I-06 (loses)
    history(0, acks, monkeypatch)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100, 140))
def test_more_of_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history(seed, random.Random(seed).choice(["all", 1]), monkeypatch)
