"""A writer killed (SIGKILL) at every call of the store: its append is there once or not at all, and the log goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparklog
from sparklog.chain.command_body import SLICES_INLINE
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.invariants import check
from tests.faults.killed_commit import COMMAND_ID, PARTITIONS, rows

MOST_STEPS = 200


@pytest.fixture(scope="module")
def killer() -> Iterator[subprocess.Popen[str]]:
    """A process that runs an append in a child of its own for each request."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.killed_commit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as found:
        yield found
        assert found.stdin is not None
        found.stdin.close()


def kill(killer: subprocess.Popen[str], moment: str, step: int, inline: int, root: Path) -> tuple[bool, bool]:
    """(whether it was killed, whether it was told that its append landed)."""
    assert killer.stdin is not None
    assert killer.stdout is not None
    killer.stdin.write(f"{moment} {step} {inline} {root}\n")
    killer.stdin.flush()
    status, acknowledged = killer.stdout.readline().split()
    assert status in ("0", "9")
    return status == "9", acknowledged == "1"


def values(cluster: Cluster, partition: int) -> list[bytes]:
    found = cluster.read("t", partition=partition, columns=["offset", "value"])
    assert found["offset"].to_pylist() == list(range(found.num_rows))
    return found["value"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("inline", [SLICES_INLINE, PARTITIONS - 1], ids=["inline", "by reference"])
def test_a_writer_killed_at_any_call_leaves_its_append_whole_or_not_there(
    killer: subprocess.Popen[str], tmp_path: Path, moment: str, inline: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    whole = tmp_path / "whole"
    init_cluster(str(whole))
    with sparklog.connect(str(whole)) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS)
        cluster.append("t", rows("first"))
    outcomes = []
    for step in range(MOST_STEPS):
        root = tmp_path / f"step-{step}"
        shutil.copytree(whole, root)
        killed, acknowledged = kill(killer, moment, step, inline, root)
        outcomes.append(_check(root, acknowledged))
        shutil.rmtree(root)
        if not killed:
            break
    assert not killed
    assert {*outcomes} == {False, True}
    if moment == "before":  # up to some call it is not there, from then on it is; a call may be part of another one
        assert outcomes == sorted(outcomes)


def _check(root: Path, acknowledged: bool) -> bool:
    """The cluster opens, goes on, and says whether the append is there; it is the same in all partitions."""
    with sparklog.connect(str(root)) as cluster:
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
    return landed
