"""`sparklog agent`: what it prints, how it stops, and its exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
import pytest

from sparklog.core.types import StoreId
from sparklog.log.incarnation import Incarnation
from sparklog.storage.keys import INCARNATION
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster
from tests.cli.conftest import Cli


@pytest.fixture
def world(nowhere: Cli) -> Iterator[ReplicatedCluster]:
    """A cluster on disk whose store c lacks an object."""
    world = replicated_cluster(nowhere.url)
    world.write("0")
    world.write("1", on="ab")
    yield world
    world.cluster.close()


# M: N-07 P-02
def test_once_catches_up_and_ends(nowhere: Cli, world: ReplicatedCluster) -> None:
    said = nowhere("agent", "--store", "c", "--once")
    assert (said.code, said.err) == (0, "")
    events = [line.split("  ", 1)[1] for line in said.out.splitlines()]
    assert events[0].startswith("behind: store c is behind by ")
    assert events[0].endswith(" in 1 partition")
    assert events[1].startswith("caught-up: store c has caught up at chain position ")
    assert world.replicas() == "a:abc a2 b2 c2"


def test_json_is_a_line_for_each_event(nowhere: Cli, world: ReplicatedCluster) -> None:
    said = nowhere("agent", "--store", "c", "--once", "--format", "json")
    assert [each["event"] for each in said.lines] == ["behind", "caught-up"]
    assert set(said.lines[0]) == {"time_ms", "event", "text"}


def test_a_store_that_is_not_registered_is_not_found(nowhere: Cli, world: ReplicatedCluster) -> None:
    said = nowhere("agent", "--store", "x")
    assert (said.code, said.err) == (3, "BROKER_ID_NOT_REGISTERED: wanted store 'x', the cluster has a, b, c\n")


def test_a_fenced_store_is_a_conflict(nowhere: Cli, world: ReplicatedCluster) -> None:
    world.fence("c")
    said = nowhere("agent", "--store", "c")
    assert said.code == 4
    assert said.err.startswith("STALE_BROKER_EPOCH: store c is fenced, so its agent stops: `sparklog store add`")


def test_a_store_of_another_cluster_is_a_conflict(nowhere: Cli, world: ReplicatedCluster) -> None:
    world.wipe("c")
    world.store("c").put_if_absent(INCARNATION, msgspec.json.encode(Incarnation("f" * 32, "other")))
    said = nowhere("agent", "--store", "c")
    assert (said.code, said.err.split(":")[0]) == (4, "INCONSISTENT_CLUSTER_ID")


def test_once_fails_if_something_can_not_be_had(nowhere: Cli, world: ReplicatedCluster) -> None:
    for name in "ab":
        world.wipe(name, mark=False)
    said = nowhere("agent", "--store", "c", "--once")
    assert said.code == 1
    assert said.err.startswith("KAFKA_STORAGE_ERROR: store c: 1 replica could not be caught up; last error: ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(nowhere: Cli, world: ReplicatedCluster, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sparklog", "--cluster", nowhere.url, "agent", "--store", "c", "--format", "json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        read_until(process.stdout, "caught-up")
        assert world.state.stores[StoreId("c")].agent_up is True
        process.send_signal(number)
        out, err = process.communicate()
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["down"]
    assert world.state.stores[StoreId("c")].agent_up is None
    assert world.replicas() == "a:abc a2 b2 c2"


def read_until(out: IO[str], event: str) -> None:
    for line in out:
        if json.loads(line)["event"] == event:
            return
    raise AssertionError(f"it ended before {event}")


def test_a_wiped_store_is_said_loudly(nowhere: Cli, world: ReplicatedCluster) -> None:
    world.wipe("c")
    said = nowhere("agent", "--store", "c", "--once")
    assert said.code == 0
    assert f"no {INCARNATION} is there: it was wiped or swapped" in said.out
    assert Path(nowhere.url, "c", INCARNATION).exists()
    assert world.replicas() == "a:abc a2 b2 c2"
