"""Processes that race for every slot of one chain: on a local disk, on S3, on HDFS."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import sparklog
from sparklog.chain.follower import Follower
from sparklog.client.bootstrap import init_cluster
from sparklog.core.invariants import check
from sparklog.storage.open_store import open_store
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server

PROCESSES = 8
PARTITIONS = 3


@pytest.mark.slow
def test_1600_commits_of_8_processes_lose_nothing_and_double_nothing(tmp_path: Path) -> None:  # M: S-03 I-06
    race(str(tmp_path / "cluster"), 200)


# M: S-03
@pytest.mark.slow
def test_commits_that_race_on_s3_lose_nothing_and_double_nothing(
    s3proxy: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3proxy.variables.items():
        monkeypatch.setenv(name, value)
    race(f"s3://{s3proxy.new_bucket()}/cluster", 10)


# M: S-03
@pytest.mark.slow
def test_commits_that_race_on_hdfs_lose_nothing_and_double_nothing(hadoop: Hadoop) -> None:
    race(f"{hadoop.url}/{uuid.uuid4().hex}", 10)


def race(root: str, appends: int) -> None:
    """8 processes x `appends` on one new cluster; then the log is what they were told."""
    init_cluster(root)
    with sparklog.connect(root) as cluster:
        cluster.create_topic("race", partitions=PARTITIONS)
    told = _race(root, appends)
    with sparklog.connect(root) as cluster:
        state = cluster.connection.follower.state
        check(state)
        assert state.n + 1 == 2 + PROCESSES * appends
        log = {at: cluster.read("race", partition=at).to_pylist() for at in range(PARTITIONS)}
    seen: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for partition, rows in log.items():
        assert [row["offset"] for row in rows] == list(range(len(rows)))
        for row in rows:
            name, number, record = row["value"].decode().split("-")
            seen.setdefault((name, partition), []).append((int(number), int(record)))
    for (name, partition), records in seen.items():
        mine = [number for number in range(appends) if number % PARTITIONS == partition]
        assert records == [(number, record) for number in mine for record in range(number % 3 + 1)], name
    assert len(seen) == PROCESSES * PARTITIONS
    for name, lines in told.items():
        for number, (partition, start, end) in enumerate(lines):
            values = [row["value"].decode() for row in log[partition][start:end]]
            assert values == [f"{name}-{number}-{record}" for record in range(number % 3 + 1)]
    replayed = Follower(open_store(root))
    replayed.open()
    assert replayed.state.n == state.n


def _race(root: str, appends: int) -> dict[str, list[tuple[int, int, int]]]:
    """Let all run at once; what each was told about its appends: partition, start, end."""
    writers = {
        f"w{number}": subprocess.Popen(
            [sys.executable, "-m", "tests.faults.racing_appends", root, f"w{number}", str(appends), str(PARTITIONS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    }
    for each in writers.values():
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in writers.values():
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    told = {}
    for name, each in writers.items():
        out, _ = each.communicate()
        assert each.returncode == 0
        told[name] = [(int(a), int(b), int(c)) for a, b, c in (line.split() for line in out.splitlines())]
        assert len(told[name]) == appends
    return told
