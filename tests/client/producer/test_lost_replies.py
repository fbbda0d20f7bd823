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
from tests.faults.faulty_store import FaultyStore, dice_of

PARTITIONS, RECORDS = 3, 400
Commit = Callable[..., CommandResult]


class LossyCommits:
    """Commits whose command or whose reply gets lost at random. `most` is how many were under way at once."""

    def __init__(self, dice: random.Random, commit: Commit, chance: float) -> None:
        self._dice, self._commit, self._chance = dice, commit, chance
        self._turn = threading.Lock()
        self._under_way = self.most = self.lost = 0

    def __call__(self, *arguments: Any, **more: Any) -> CommandResult:
        with self._turn:
            fate = self._dice.random()
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            self.lost += fate < self._chance
        try:
            if fate < self._chance / 2:
                raise OutcomeUnknown("the command got lost")
            result = self._commit(*arguments, **more)
            if fate < self._chance:
                raise OutcomeUnknown("the reply got lost")
            return result
        finally:
            with self._turn:
                self._under_way -= 1


@pytest.mark.parametrize("seed", range(3))
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
        store = cluster.connection.follower.store
        lossy = cluster.connection.follower.store = FaultyStore(store, roll=dice_of(dice, 0.1))  # type: ignore[assignment]
        with cluster.producer(linger_ms=0, batch_size=1_000, buffer_memory=5_000) as producer:
            futures = [producer.send("t", f"{n:04d}", key=f"{n}") for n in range(RECORDS)]
        outcomes = [future.exception(0) for future in futures]
        lossy.roll = None
        assert commits.lost > 0
        assert commits.most > 1
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
