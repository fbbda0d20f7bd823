"""After a kill, leader epochs and producers are as before: by snapshot and entries, and by what the objects say."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparklog
from sparklog.chain.follow.follower import Follower
from sparklog.chain.snapshot import snapshot
from sparklog.core.state import ClusterState
from sparklog.core.state_invariants import check
from sparklog.core.types import Offset, OffsetRange
from sparklog.storage.keys import parse_data_key
from sparklog.storage.open_store import open_store
from tests.agent.agent_world import replicated_cluster
from tests.faults.crash_places import Place, objects_of
from tests.faults.killed_runs import KilledRuns
from tests.faults.killed_state import digest_of

NEVER = -1
KILLS, SEED = 3, 2


@pytest.fixture(scope="module")
def killer(place: Place) -> Iterator[KilledRuns]:
    with KilledRuns("tests.faults.killed_state") as runs:
        yield runs


# M: F-06 (kills)
@pytest.mark.parametrize("place", ["disk"], indirect=True)
def test_the_state_after_a_kill_is_the_state_before_it(
    place: Place, killer: KilledRuns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    world = replicated_cluster(place.new_url(), partitions=2)
    objects = objects_of(world.cluster.connection.url)
    world.cluster.close()
    was_killed, changes = killer(NEVER, place.copied(objects), str(tmp_path / "all"))
    assert not was_killed
    steps = list(range(changes))
    if not request.config.getoption("--campaign"):
        steps = sorted(random.Random(SEED).sample(steps[changes // 2 :], KILLS))  # after the snapshot
    compared = 0
    for step in steps:
        url, file = place.copied(objects), tmp_path / str(step)
        assert killer(step, url, str(file)) == (True, step)
        with sparklog.connect(url) as cluster:
            state = cluster.connection.follower.catch_up().state
        check(state)
        with monkeypatch.context() as patch:
            patch.setattr(snapshot, "_newest_first", lambda store: iter(()))
            by_entries = Follower(open_store(url)).catch_up().state
        assert digest_of(by_entries) == digest_of(state)
        noted = file.read_text().splitlines() if file.exists() else []
        if noted and int(noted[-1].split()[0]) == state.n:  # else its last commit landed, and it died before the note
            assert noted[-1] == digest_of(state)
            compared += 1
        says_what_the_objects_say(state, url)
    assert compared


def says_what_the_objects_say(state: ClusterState, url: str) -> None:
    """Slices remember the epoch they were written under and the sequences they hold."""
    last: dict[tuple[int, object], object] = {}
    for key, partition in state.partitions.items():
        for slice_ in state.slices.walk(key, OffsetRange(Offset(0), partition.next_offset)):
            epochs = [epoch for epoch, start in partition.replication.epochs if start <= slice_.start]
            assert slice_.leader_epoch == epochs[-1]
            span = slice_.producer
            if span is not None:
                last[span.producer_id, key] = (span.first_sequence, span.last_sequence, slice_.start, slice_.end)
    known = {
        (producer.producer_id, key): (batch.first_sequence, batch.last_sequence, batch.start, batch.end)
        for producer in state.producers.values()
        for key, batches in producer.batches.items()
        for batch in batches[-1:]
    }
    assert known == last
    stored = [parse_data_key(stored.key) for stored in open_store(f"{url}/a").list_keys("append/")]
    assert {name.upload_id for name in stored if name} >= {each.object.upload_id for each in state.objects}
