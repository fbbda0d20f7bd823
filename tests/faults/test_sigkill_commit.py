"""A writer dies at any call of the store: its append is there once or not at all, and the log goes on."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

import sparklog
from sparklog.chain.commit import command_group
from sparklog.chain.commit.command_body import SLICES_INLINE
from sparklog.chain.snapshot import snapshot_writer
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.plans import plan_and_upload as upload_module
from sparklog.core.state_invariants import check
from tests.faults.crash_places import Place, objects_of
from tests.faults.deadly_calls import dying_at, every_call
from tests.faults.killed_commit import COMMAND_ID, PARTITIONS, rows
from tests.faults.killed_runs import KilledRuns
from tests.maintenance.maintained_log import MaintainedLog

MOST_STEPS = 200
STRIDE = 11


@pytest.fixture(scope="module")
def killer(place: Place) -> Iterator[KilledRuns]:
    """Runs appends in processes of their own, whose environment names the place."""
    with KilledRuns("tests.faults.killed_commit") as runs:
        yield runs


def values(cluster: Cluster, partition: int) -> list[bytes]:
    found = cluster.read("t", partition=partition, columns=["offset", "value"])
    assert found["offset"].to_pylist() == list(range(found.num_rows))
    return found["value"].to_pylist()  # type: ignore[no-any-return]


def died(
    place: Place, request: pytest.FixtureRequest, moment: str, step: int, inline: int, url: str
) -> tuple[bool, bool]:
    """(Whether it was killed, whether its append was acknowledged.) In memory it runs in this process."""
    if place.name != "memory":
        killed, told_landed = request.getfixturevalue("killer")(moment, step, inline, url)
        return killed, told_landed == 1
    told: list[bool] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upload_module, "new_command_id", lambda: COMMAND_ID)
        patch.setattr(snapshot_writer, "SNAPSHOT_EVERY", 1)
        patch.setattr(command_group, "SLICES_INLINE", inline)
        with dying_at(url, every_call(url), moment, step) as death, sparklog.connect(url) as cluster:
            cluster.append("t", rows("killed"))
            told.append(True)
    return death.came, bool(told)


INLINE = {"inline": SLICES_INLINE, "by reference": PARTITIONS - 1}
# They show most, where each kill takes seconds.
REAL_KILLS = {("disk", "before", "inline"), ("s3", "before", "inline"), ("hdfs", "after", "by reference")}


def case(place: str, moment: str, how: str) -> ParameterSet:
    """In memory every death; elsewhere one kind of them, or all with --campaign."""
    marks = [pytest.mark.slow] if place in ("s3", "hdfs") else []
    if place != "memory" and (place, moment, how) not in REAL_KILLS:
        marks.append(pytest.mark.campaign)
    return pytest.param(place, moment, how, marks=marks)


# M: F-01 I-03 (kills)
@pytest.mark.parametrize(
    ("place", "moment", "how"),
    [case(*each) for each in itertools.product(("memory", "disk", "s3", "hdfs"), ("before", "after"), INLINE)],
    indirect=["place"],
)
def test_a_writer_killed_at_any_call_leaves_its_append_whole_or_not_there(
    place: Place, moment: str, how: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In memory the writer dies at every store call; elsewhere its process is killed at every `STRIDE`-th."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    whole = place.new_url()
    init_cluster(whole)
    with sparklog.connect(whole) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS)
        cluster.append("t", rows("first"))
    objects = objects_of(whole)
    outcomes, left = [], 0
    everywhere = place.name == "memory" or request.config.getoption("--campaign")
    for step in range(0, MOST_STEPS, 1 if everywhere else STRIDE):
        url = place.copied(objects)
        killed, acknowledged = died(place, request, moment, step, INLINE[how], url)
        outcomes.append(_check(url, acknowledged))
        left += len(place.unpublished(url))
        if not killed:
            break
    assert not killed
    assert not place.unpublished(url)
    assert {*outcomes} == {False, True}
    assert left or not everywhere, "no writer died in an upload"
    if moment == "before":  # up to some call it is not there, from then on it is (a call may be part of another one)
        assert outcomes == sorted(outcomes)


def _check(url: str, acknowledged: bool) -> bool:
    """Check that the cluster opens and goes on. Returns whether the append is there, in all partitions alike."""
    with sparklog.connect(url) as cluster:
        result = cluster.connection.follower.state.results.get(COMMAND_ID)
        landed = result is not None
        assert landed or not acknowledged
        wanted = [b"first", b"killed"] if landed else [b"first"]
        for partition in range(PARTITIONS):
            assert values(cluster, partition) == wanted
        again = cluster.append("t", rows("next"))
        assert {(each.start, each.end) for each in again.ranges} == {(len(wanted), len(wanted) + 1)}
        check(cluster.connection.follower.state)
        for partition in range(PARTITIONS):
            assert values(cluster, partition) == [*wanted, b"next"]
        log = MaintainedLog(cluster)
        assert log.live() <= log.stored(), "an index may be missing for long before a read needs it"
    return landed
