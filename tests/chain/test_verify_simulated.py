"""Verifying chains on which writers, readers, the deleter of old entries and vacuum met any faults: no difference."""

from __future__ import annotations

import uuid
from itertools import pairwise

import pytest

from sparklog.chain import verify_chain
from sparklog.chain.follow import catch_up
from sparklog.chain.follow.follower import Follower
from sparklog.chain.snapshot import old_snapshots
from sparklog.storage import keys
from sparklog.storage.memory import MemoryStore
from tests.chain.simulated_keeper import BLOCK
from tests.chain.simulation import World, new_chain
from tests.kit.budget import Seeds, random_runs

EVENTS = 400


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ENTRIES_PER_BLOCK", BLOCK)
    monkeypatch.setattr(catch_up, "ROUND_ENTRIES", 3)
    monkeypatch.setattr(catch_up, "READ_WIDTH", 2)
    monkeypatch.setattr(verify_chain, "READ_WIDTH", 4)
    monkeypatch.setattr(old_snapshots, "KEPT", 1)
    monkeypatch.setattr(verify_chain, "KEPT", 1)


@random_runs(range(10), campaign=[range(60)])
def test_no_interleaving_leaves_a_difference(seeds: Seeds) -> None:
    start = new_chain()
    deleted = replayed = 0
    for seed in seeds:
        world = World(seed, start, events=EVENTS)
        world.run()
        store = MemoryStore(f"memory://{uuid.uuid4().hex}")
        for key, body in world.store.bodies.items():
            store.put_if_absent(key, body)
        follower = Follower(store)
        follower.open()
        verified = verify_chain.verify_chain(store, follower.head)
        assert verified.differences == [], f"seed {seed}"
        deleted += len(world.deleted_blocks)
        replayed += verified.snapshots
    assert deleted > seeds.least
    assert replayed > seeds.least // 2


class Moving:
    """A store at which the world goes on between any two requests: it has what the world had at that time."""

    def __init__(self, times: list[dict[str, bytes]]) -> None:
        self.url = "memory://moving"
        self._times = times
        self._asked = 0

    def _now(self) -> MemoryStore:
        at = min(self._asked // 3, len(self._times) - 1)
        self._asked += 1
        store = MemoryStore(f"memory://{uuid.uuid4().hex}")
        for key, body in self._times[at].items():
            store.put_if_absent(key, body)
        return store

    def __getattr__(self, name: str) -> object:
        return getattr(self._now(), name)


@random_runs(range(1_000, 1_010), campaign=[range(1_000, 1_030)])
def test_what_happens_while_it_is_verified_is_no_difference(seeds: Seeds) -> None:
    start = new_chain()
    moved = 0
    for seed in seeds:
        world = World(seed, start, events=2)
        times = []
        for _ in range(30):
            world.run()
            times.append(dict(world.store.bodies))
        first = MemoryStore(f"memory://{uuid.uuid4().hex}")
        for key, body in times[0].items():
            first.put_if_absent(key, body)
        follower = Follower(first)
        follower.open()
        verified = verify_chain.verify_chain(Moving(times), follower.head)  # type: ignore[arg-type]
        assert verified.differences == [], f"seed {seed}"
        moved += sum(before != after for before, after in pairwise(times))
    assert moved > 2 * seeds.least
