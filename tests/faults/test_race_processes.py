"""Processes that race for every slot of one chain: on a local disk, with --campaign on S3 and HDFS.

The contract of stores has eight processes that race for keys on S3 and HDFS.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import sparklog
from sparklog.chain.follow.follower import Follower
from sparklog.client.bootstrap import init_cluster
from sparklog.core.state_invariants import check
from sparklog.storage.open_store import open_store
from tests.faults import racing_appends
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server

PROCESSES = 8
PARTITIONS = 3


@pytest.mark.slow
def test_commits_of_8_processes_lose_nothing_and_double_nothing(  # M: S-03 I-06
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    check_race(str(tmp_path / "cluster"), 200 if request.config.getoption("--campaign") else 20)


@pytest.mark.campaign
@pytest.mark.slow
def test_commits_that_race_on_s3_lose_nothing_and_double_nothing(
    s3proxy: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for name, value in s3proxy.variables.items():
        monkeypatch.setenv(name, value)
    check_race(f"s3://{s3proxy.new_bucket()}/cluster", 20 if request.config.getoption("--campaign") else PARTITIONS)


@pytest.mark.campaign
@pytest.mark.slow
def test_commits_that_race_on_hdfs_lose_nothing_and_double_nothing(
    hadoop: Hadoop, request: pytest.FixtureRequest
) -> None:
    check_race(f"{hadoop.url}/{uuid.uuid4().hex}", 20 if request.config.getoption("--campaign") else PARTITIONS)


def check_race(root: str, appends: int) -> None:
    """8 processes x `appends` on one new cluster; then the log matches the answers they got."""
    init_cluster(root)
    with sparklog.connect(root) as cluster:
        cluster.create_topic("race", partitions=PARTITIONS)
    told = racing_appends.race(root, PROCESSES, appends, PARTITIONS)
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
