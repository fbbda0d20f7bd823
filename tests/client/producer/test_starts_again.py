"""A producer starts again by itself: under a new id if the chain forgot it, in its next epoch after doubt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.producer import sending
from sparklog.core.commands import RaiseFloor
from sparklog.core.errors import InvalidProducerEpoch, Landed, SparklogError
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber
from tests.kit.log import new_cluster, values

WAIT_S = 60.0
AT_ONCE = 5


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Producers expire as soon as maintenance looks."""
    with new_cluster(config={"producer.id.expiration.ms": 1}) as made:
        made.create_topic("t", partitions=1)
        yield made


class HeldCommits:
    """Commits that wait until `AT_ONCE` are under way and the test lets them go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = sending.commit_append
        self._arrived = threading.Semaphore(0)
        self._gone_on = threading.Event()
        monkeypatch.setattr(sending, "commit_append", self)

    def __call__(self, *arguments: Any, **more: Any) -> CommandResult:
        self._arrived.release()
        assert self._gone_on.wait(WAIT_S)
        return self._commit(*arguments, **more)

    def await_one_more(self) -> None:
        assert self._arrived.acquire(timeout=WAIT_S)

    def go_on(self) -> None:
        self._gone_on.set()


def forget_producers(cluster: Cluster) -> None:
    """Let all producers expire, as maintenance does."""
    while cluster.connection.follower.catch_up().state.producers:
        # until one begins a later millisecond than the last write
        cluster.submit(RaiseFloor(EntryNumber(0), shown_ms=1 << 60))


def test_a_producer_that_the_chain_forgot_goes_on_under_a_new_id(cluster: Cluster) -> None:  # M: I-01
    with cluster.producer(linger_ms=0) as producer:
        assert producer.send("t", "0").result(WAIT_S).offset == 0
        known_as = producer.producer_id
        forget_producers(cluster)
        assert [producer.send("t", f"{n}").result(WAIT_S).offset for n in (1, 2)] == [1, 2]
        assert producer.producer_id > known_as
    assert values(cluster) == ["0", "1", "2"]


def test_what_was_under_way_when_the_chain_forgot_a_producer_is_written_in_order_and_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:  # M: I-01 I-06
    with cluster.producer(linger_ms=0) as producer:
        held = HeldCommits(monkeypatch)
        futures = []
        for n in range(AT_ONCE):  # a flush each
            futures.append(producer.send("t", f"{n}"))
            held.await_one_more()
        known_as = producer.producer_id
        forget_producers(cluster)
        held.go_on()
        futures += [producer.send("t", f"{n}") for n in range(AT_ONCE, 20)]
        assert [future.result(WAIT_S).offset for future in futures] == list(range(20))
        assert producer.producer_id == known_as + 1, "five refusals lead to one new id"
    assert values(cluster) == [f"{n}" for n in range(20)]


class LostCommand:
    """A commit whose command gets lost on its way, and may still arrive: `stray` is its arrival."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = sending.commit_append
        self.stray: Callable[[], CommandResult] | None = None
        monkeypatch.setattr(sending, "commit_append", self)

    def __call__(self, *arguments: Any, **more: Any) -> CommandResult:
        if self.stray is not None:
            return self._commit(*arguments, **more)
        self.stray = partial(self._commit, *arguments, **more)
        raise SparklogError("nobody knows what became of it", landed=Landed.UNKNOWN)


def test_a_producer_goes_on_in_its_next_epoch_after_doubt_and_what_was_lost_arrives_too_late(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:  # M: I-01 (loses)
    with cluster.producer(linger_ms=0) as producer:
        assert producer.send("t", "0").result(WAIT_S).offset == 0
        lost = LostCommand(monkeypatch)
        error = producer.send("t", "given up").exception(WAIT_S)
        assert isinstance(error, SparklogError)
        assert error.landed is Landed.UNKNOWN
        assert producer.send("t", "1").result(WAIT_S).offset == 1
        assert lost.stray is not None
        with pytest.raises(InvalidProducerEpoch):
            lost.stray()
        assert producer.send("t", "2").result(WAIT_S).offset == 2
    assert values(cluster) == ["0", "1", "2"]
