"""Recovery dies at any change of a store, or meets others there: readers get right records, and a run repairs all."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

import sparklog
from sparklog.core.state_invariants import check
from tests.agent.agent_world import DrivenAgent, ReplicatedCluster
from tests.faults.crash_places import Place, objects_of
from tests.faults.deadly_calls import dying_at, every_change
from tests.faults.interruptions import NEVER, killed_at, meet_at
from tests.faults.killed_recovery import run
from tests.faults.killed_runs import KilledRuns
from tests.maintenance.compacted_log import CompactedLog, compacted_log
from tests.maintenance.damaged_log import DamagedLog, damaged_log
from tests.maintenance.keyed_log import KeyedLog
from tests.maintenance.maintained_log import MaintainedLog


def damage(log: DamagedLog) -> None:
    """Objects and an index on every store, each whole elsewhere."""
    log.damage("a", 3, "lost")
    log.damage("b", 2, "flipped")
    log.damage("b", 0, "cut")
    log.damage("c", 1, "empty", index=True)


def readable(log: DamagedLog) -> None:
    """Every record that was written is read, whatever state the repair is in."""
    check(log.world.state)
    for partition, values in log.model.items():
        assert log.left(partition) == values


def recovered(log: DamagedLog) -> None:
    """A run repairs what is left, and the one after it finds nothing to do."""
    assert run(log.url) == 0
    log.check()
    assert run(log.url) == 0
    assert [log.point(store) for store in "abc"] == [log.world.state.next_object_number] * 3


# M: F-03 F-04 F-05 (kills)
def test_a_recovery_that_dies_anywhere_and_runs_again_repairs_everything(request: pytest.FixtureRequest) -> None:
    """At every third change; with --campaign at all of them."""
    step, came = 0, True
    while came:
        log = damaged_log()
        damage(log)
        with dying_at(log.url, every_change(log.url), "before", step) as death:
            assert run(log.url) == 0
        came = death.came
        readable(log)
        log.write(1)
        recovered(log)
        log.world.cluster.close()
        step += 1 if request.config.getoption("--campaign") else 3
    assert step > 20


@pytest.fixture(scope="module")
def killer(place: Place) -> Iterator[KilledRuns]:
    """Runs recovery in processes of their own, whose environment names the place."""
    with KilledRuns("tests.faults.killed_recovery") as runs:
        yield runs


def case(place: str) -> ParameterSet:
    marks = [] if place == "disk" else [pytest.mark.slow, pytest.mark.campaign]
    return pytest.param(place, marks=marks)


# M: F-03 F-04 F-05 (kills)
@pytest.mark.parametrize("place", [case("disk"), case("s3"), case("hdfs")], indirect=True)
def test_a_recovery_that_is_killed_and_run_again_repairs_everything(
    place: Place, killer: KilledRuns, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # a kill loses no pages: waiting for the disk proves nothing
    log = damaged_log(place.new_url())
    damage(log)
    objects = objects_of(log.url)
    log.world.cluster.close()
    was_killed, changes = killer(NEVER, log.url)
    assert not was_killed
    for step in killed_at(changes, request):
        url = place.copied(objects)
        assert killer(step, url) == (True, step)
        with sparklog.connect(url) as cluster:
            again = DamagedLog(ReplicatedCluster(cluster), {key: list(values) for key, values in log.model.items()})
            readable(again)
            again.write(1)
            recovered(again)


# M: F-04 C-05 (kills)
@pytest.mark.parametrize("place", [case("disk"), case("s3"), case("hdfs")], indirect=True)
def test_a_salvage_that_is_killed_and_run_again_saves_every_record(
    place: Place, killer: KilledRuns, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """No store has the compacted segment whole. A reader goes on at store b where a fails."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    log = compacted_log(place.new_url())
    number, _, index = log.compacted
    for batches, store in zip(([4], [0, 2], [1, 3]), "abc", strict=True):
        log.flip_batches(store, number, batches, index)
    objects = objects_of(log.url)
    log.world.cluster.close()
    was_killed, changes = killer(NEVER, log.url)
    assert not was_killed
    for step in killed_at(changes, request):
        url = place.copied(objects)
        assert killer(step, url).killed
        with sparklog.connect(url) as cluster:
            again = CompactedLog(
                ReplicatedCluster(cluster), KeyedLog(MaintainedLog(cluster), log.keyed.rows), log.whole
            )
            assert again.keyed.read() == again.whole
            for _ in range(2):
                assert run(url) == 0
                check(again.world.state)
            assert again.keyed.read() == again.whole
            assert [again.point(store) for store in "abc"] == [again.world.state.next_object_number] * 3


# M: F-04
def test_writers_readers_agents_and_other_recoveries_may_come_in_at_any_change(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    step, came = 0, True
    while came:
        log = damaged_log()
        damage(log)
        with monkeypatch.context() as patch:
            happened = meet_at(patch, step, lambda log=log, at=step: met(log, at))
            status = run(log.url)
            came = happened()
        assert status in (0, 1), "a report that another overtook is a failure, and the next run does the rest"
        readable(log)
        recovered(log)
        log.world.cluster.close()
        step += 1 if request.config.getoption("--campaign") else 5
    assert step > 20


def met(log: DamagedLog, at: int) -> None:
    """What others do in the middle of a recovery: each time something else."""
    log.write(1)
    readable(log)
    match at % 2:
        case 0:
            assert run(log.url) == 0
        case _:
            for store in "abc":
                DrivenAgent(log.world, store, once=True).run(2_000)
