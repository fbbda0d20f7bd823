"""Coordinators as real processes: one leads, others take over when it is killed, paused, stopped or made to resign."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.core.commands import ResignCoordination
from sparklog.core.errors import OutcomeUnknown, TryAgain
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber
from tests.faults.running_coordinators import SESSION_MS, RunningCoordinators, running_coordinators
from tests.kit.log import values


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A cluster without a coordinator, with a topic of three partitions."""
    url = f"file://{tmp_path}/cluster"
    init_cluster(url, config={"broker.session.timeout.ms": SESSION_MS})
    with connect(url) as cluster:
        cluster.create_topic("t", partitions=3)
    return url


@pytest.fixture
def coordinators(url: str) -> Iterator[RunningCoordinators]:
    with running_coordinators(url) as running:
        yield running


def write(cluster: Cluster, value: str, timeout_ms: int = 60_000) -> None:
    cluster.append("t", pa.table({"value": [value], "partition": pa.array([0], pa.int32())}), timeout_ms=timeout_ms)


def newest(cluster: Cluster) -> ClusterState:
    state = cluster.connection.newest_state()
    return state


def author_of_newest(cluster: Cluster) -> tuple[str, int]:
    follower = cluster.connection.follower
    (entry,) = follower.entries([EntryNumber(newest(cluster).n)])
    return entry.author.kind, entry.author.epoch


def test_commands_go_to_the_coordinator_while_there_is_one(url: str, coordinators: RunningCoordinators) -> None:
    with connect(url) as cluster:
        write(cluster, "0")
        assert author_of_newest(cluster)[0] == "client"
        leader = coordinators.start()
        leader.wait_for("leads")
        write(cluster, "1")
        state = newest(cluster)
        assert (state.coordinator.epoch, state.coordinator.address) == (1, leader.address)
        numbers = (EntryNumber(n) for n in range(2, state.n + 1))
        authors = {entry.author.kind for entry in cluster.connection.follower.entries(numbers)}
        assert authors == {"client", "coordinator"}
        leader.send(signal.SIGTERM)
        assert leader.process.wait() == 0
        assert not newest(cluster).coordinator.in_force
        write(cluster, "2")
        assert author_of_newest(cluster)[0] == "client"
        assert values(cluster) == ["0", "1", "2"]


# M: N-01 (kills)
def test_another_one_leads_after_a_kill_and_no_command_is_lost_or_doubled(
    url: str, coordinators: RunningCoordinators
) -> None:
    first = coordinators.start()
    first.wait_for("leads")
    second = coordinators.start()
    second.wait_for("stands-by")
    with connect(url) as cluster:
        acknowledged: list[str] = []
        begun, killed = threading.Event(), threading.Event()

        def work() -> None:
            number = 0
            while not killed.is_set() or number < 40:
                write(cluster, str(number))
                acknowledged.append(str(number))
                number += 1
                if number == 10:
                    begun.set()

        writer = threading.Thread(target=work)
        writer.start()
        assert begun.wait(60)
        first.kill()
        second.wait_for("leads")
        killed.set()
        writer.join(120)
        assert values(cluster) == acknowledged
        assert newest(cluster).coordinator.address == second.address
        assert author_of_newest(cluster)[0] == "coordinator"


def test_one_that_was_paused_steps_down_when_it_wakes(url: str, coordinators: RunningCoordinators) -> None:
    first = coordinators.start()
    first.wait_for("leads")
    second = coordinators.start()
    first.pause()
    assert second.wait_for("leads").endswith("epoch 2")
    with connect(url) as cluster:
        write(cluster, "0")
        first.send(signal.SIGCONT)
        first.wait_for("stands-by")
        write(cluster, "1")
        assert values(cluster) == ["0", "1"]
        assert newest(cluster).coordinator.address == second.address


# M: N-01 (loses)
def test_a_client_does_not_wait_for_one_that_was_paused_until_its_own_time_is_over(
    url: str, coordinators: RunningCoordinators
) -> None:
    """A paused process, as a machine that lost its network, closes no connection: only the chain says who is next."""
    first = coordinators.start()
    first.wait_for("leads")
    second = coordinators.start()
    with connect(url) as cluster:
        write(cluster, "0")
        first.pause()
        write(cluster, "1", timeout_ms=3_600_000)
        assert newest(cluster).coordinator.address == second.address
        first.send(signal.SIGCONT)
        first.wait_for("stands-by")
        assert values(cluster) == ["0", "1"]


def test_a_clean_stop_hands_over_at_once(url: str, coordinators: RunningCoordinators) -> None:
    first = coordinators.start()
    first.wait_for("leads")
    second = coordinators.start()
    first.send(signal.SIGTERM)
    second.wait_for("leads")
    assert first.process.wait() == 0
    with connect(url) as cluster:
        write(cluster, "0")
        assert author_of_newest(cluster) == ("coordinator", 2)


def test_without_any_a_client_says_how_to_go_on_and_resign_makes_the_cluster_embedded_again(
    url: str, coordinators: RunningCoordinators
) -> None:
    only = coordinators.start()
    only.wait_for("leads")
    only.kill()
    with connect(url) as cluster:
        with pytest.raises((TryAgain, OutcomeUnknown), match="run 'sparklog coordinator resign --force'"):
            write(cluster, "0", timeout_ms=500)
        committer = cluster.connection.committer
        committer.commit_here(committer.begin(ResignCoordination(1)))
        write(cluster, "1")
        assert values(cluster) == ["1"]
