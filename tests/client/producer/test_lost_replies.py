"""Producers on stores that lose replies, fail, and answer twice: five flushes under way, order and uniqueness hold."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sparklog.client.bootstrap import DEFAULT_STORE
from sparklog.client.producer import sending
from sparklog.core.errors import Landed, OutcomeUnknown, SparklogError
from sparklog.core.records import CommandResult
from tests.client.interfered_stores import interfere
from tests.client.test_cluster import new_cluster
from tests.kit.faulty_store import FaultyStore, dice_of

PARTITIONS, RECORDS, AT_ONCE = 3, 400, 5
WAIT_S = 60.0
Commit = Callable[..., CommandResult]


class LossyCommits:
    """Commits that lose one command and one reply of the first five, and at random of those that follow.

    The first five wait until all of them are under way. `lost` counts what got lost.
    """

    def __init__(self, dice: random.Random, commit: Commit, chance: float) -> None:
        self._dice, self._commit, self._chance = dice, commit, chance
        self._changed = threading.Condition()
        self._under_way = self.lost = 0
        self._wanted = AT_ONCE
        self._first = [0.0, chance * 0.75] + [chance] * (AT_ONCE - 2)  # the order of threads must not spare them all
        dice.shuffle(self._first)

    def await_under_way(self, number: int) -> None:
        """Wait until so many are under way at once, or were."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._wanted == 0 or self._under_way >= number, WAIT_S)

    def __call__(self, *arguments: Any, **more: Any) -> CommandResult:
        with self._changed:
            fate = self._first.pop() if self._first else self._dice.random()
            self._under_way += 1
            self.lost += fate < self._chance
            if self._under_way == self._wanted:
                self._wanted = 0
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._wanted == 0, WAIT_S)
        try:
            if fate < self._chance / 2:
                raise OutcomeUnknown("the command got lost")
            result = self._commit(*arguments, **more)
            if fate < self._chance:
                raise OutcomeUnknown("the reply got lost")
            return result
        finally:
            with self._changed:
                self._under_way -= 1


@pytest.mark.parametrize("seed", range(2))
def test_order_and_uniqueness_hold_whatever_replies_get_lost(  # M: I-01 I-06
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history(seed, monkeypatch)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_of_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history(seed, monkeypatch)


def history(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    commits = LossyCommits(dice, sending.commit_append, 0.3)
    with new_cluster() as cluster:
        cluster.create_topic("t", partitions=PARTITIONS)
        calls = interfere(monkeypatch)
        monkeypatch.setattr(sending, "commit_append", commits)

        def fail(call: str, key: str) -> None:
            if call in ("upload", "publish") and dice.random() < 0.1:
                raise OutcomeUnknown("an upload in doubt")

        calls.before[DEFAULT_STORE] = fail
        lossy = FaultyStore(cluster.connection.follower.store, dice_of(dice, 0.1))
        with cluster.producer(linger_ms=0, batch_size=1_000, buffer_memory=5_000) as producer:
            cluster.connection.follower.store = lossy
            futures = []
            for n in range(AT_ONCE):  # a flush each
                futures.append(producer.send("t", f"{n:04d}", key=f"{n}"))
                commits.await_under_way(n + 1)
            futures += [producer.send("t", f"{n:04d}", key=f"{n}") for n in range(AT_ONCE, RECORDS)]
        outcomes = [future.exception(0) for future in futures]
        lossy.before = None
        assert commits.lost >= 2
        landed: dict[int, list[str]] = {}
        for partition in range(PARTITIONS):
            rows = cluster.read("t", partition=partition)
            landed[partition] = [value.decode() for value in rows["value"].to_pylist()]
            assert landed[partition] == sorted(set(landed[partition])), "in order, and once"
        for n, (future, error) in enumerate(zip(futures, outcomes, strict=True)):
            if error is None:
                where = future.result()
                assert where.partition is not None
                assert where.offset is not None
                assert landed[where.partition][where.offset] == f"{n:04d}"
            else:
                assert isinstance(error, SparklogError)
                assert error.landed is not Landed.NO or not any(f"{n:04d}" in values for values in landed.values())
