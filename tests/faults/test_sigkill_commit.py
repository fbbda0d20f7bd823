"""A writer killed (SIGKILL) at every call of the store: its append is there once or not at all, and the log goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import sparklog
from sparklog.chain.command_body import SLICES_INLINE
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.invariants import check
from tests.faults.crash_places import Place, objects_of
from tests.faults.killed_commit import COMMAND_ID, PARTITIONS, rows
from tests.spark.maintained_log import MaintainedLog

MOST_STEPS = 200


@pytest.fixture(scope="module")
def killer(place: Place) -> Iterator[subprocess.Popen[str]]:
    """A process that runs an append in a child of its own for each request; the place is in its environment."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.killed_commit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as found:
        yield found
        assert found.stdin is not None
        found.stdin.close()


def kill(killer: subprocess.Popen[str], moment: str, step: int, inline: int, url: str) -> tuple[bool, bool]:
    """(whether it was killed, whether it was told that its append landed)."""
    assert killer.stdin is not None
    assert killer.stdout is not None
    killer.stdin.write(f"{moment} {step} {inline} {url}\n")
    killer.stdin.flush()
    status, acknowledged = killer.stdout.readline().split()
    assert status in ("0", "9")
    return status == "9", acknowledged == "1"


def values(cluster: Cluster, partition: int) -> list[bytes]:
    found = cluster.read("t", partition=partition, columns=["offset", "value"])
    assert found["offset"].to_pylist() == list(range(found.num_rows))
    return found["value"].to_pylist()  # type: ignore[no-any-return]


# M: F-01 I-03 (kills)
@pytest.mark.parametrize(
    "place",
    ["disk", pytest.param("s3", marks=pytest.mark.slow), pytest.param("hdfs", marks=pytest.mark.slow)],
    indirect=True,
)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("inline", [SLICES_INLINE, PARTITIONS - 1], ids=["inline", "by reference"])
def test_a_writer_killed_at_any_call_leaves_its_append_whole_or_not_there(
    killer: subprocess.Popen[str],
    place: Place,
    moment: str,
    inline: int,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """On S3 and HDFS at every other call: before the even and after the even is between any two."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    whole = place.new_url()
    init_cluster(whole)
    with sparklog.connect(whole) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS)
        cluster.append("t", rows("first"))
    objects = objects_of(whole)
    outcomes, left = [], 0
    stride = 1 if place.name == "disk" or request.config.getoption("--campaign") else 2
    for step in range(0, MOST_STEPS, stride):
        url = place.copied(objects)
        killed, acknowledged = kill(killer, moment, step, inline, url)
        outcomes.append(_check(url, acknowledged))
        left += len(place.unpublished(url))
        if not killed:
            break
    assert not killed
    assert not place.unpublished(url)
    assert left, "no writer died in an upload"
    assert {*outcomes} == {False, True}
    if moment == "before":  # up to some call it is not there, from then on it is; a call may be part of another one
        assert outcomes == sorted(outcomes)


def _check(url: str, acknowledged: bool) -> bool:
    """The cluster opens, goes on, and says whether the append is there; it is the same in all partitions."""
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
