"""Clients that wait at real coordinators: how much they ask for, and what becomes of them when these die or stop.

Where a test is about being woken, no look at the chain could help: the intervals are far longer than the test.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from sparklog.agent.agent_requests import Note
from sparklog.agent.run import AgentRun
from sparklog.client import waiting as waiting_module
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.client.commits.client_committer import ClientCommitter
from sparklog.core.purgatory import Records
from sparklog.core.reading.positions import Position
from sparklog.core.types import StoreId
from tests.faults.running_coordinators import SESSION_MS, RunningCoordinators, running_coordinators
from tests.kit.faulty_store import FaultyStore

NEVER_MS = 600_000
CLIENTS = 50

# `sparklog`, interrupted in the finalizer of the first reply that its main thread gets once it notes interrupts.
INTERRUPTED_FINALIZER = """
import http.client, signal, sys, threading
from sparklog.cli.main import run

close = http.client.HTTPResponse.close

def interrupted(reply):
    notes = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if not notes or threading.current_thread() is not threading.main_thread():
        return close(reply)
    http.client.HTTPResponse.close = close
    print("interrupted", flush=True)
    signal.raise_signal(signal.SIGINT)

http.client.HTTPResponse.close = interrupted
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A cluster without a coordinator; topic t, and u with replicas on a and b."""
    url = f"file://{tmp_path}/cluster"
    config = {"broker.session.timeout.ms": SESSION_MS, "replica.fetch.wait.max.ms": NEVER_MS}
    init_cluster(url, stores={"a": "a", "b": "b"}, config=config)
    with connect(url) as cluster:
        cluster.create_topic("t", assignment=[["a"]] * 2)
        cluster.create_topic("u", assignment=[["a", "b"]])
    return url


@pytest.fixture
def coordinators(url: str) -> Iterator[RunningCoordinators]:
    with running_coordinators(url) as running:
        yield running


def write(cluster: Cluster, partition: int = 0) -> None:
    cluster.append("t", pa.table({"value": ["x"], "partition": pa.array([partition], pa.int32())}), timeout_ms=60_000)


class WaitingClient:
    """A process's connection of its own, whose thread waits for the next record of t-0. Its requests are counted."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.done = False
        state = cluster.connection.follower.catch_up().state
        partition = state.partitions_of(state.topics[state.topic_ids["t"]])[0]
        epoch = partition.replication.leader_epoch
        at = Position(state.chain_id, partition.topic_id, partition.partition, partition.high_watermark, epoch)
        self._wanted = Records((at,))
        self.store = cluster.connection.follower.store = FaultyStore(cluster.connection.follower.store)
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        self.done = self.cluster.connection.waiting.watch().wait(self._wanted, 60_000)

    def join(self) -> bool:
        self._thread.join(60)
        return self.done


class Posts:
    """Counts what this process's clients send to coordinators."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of_waits = 0
        self._changed = threading.Condition()
        wait = ClientCommitter.wait

        def counted(*given: object) -> object:
            with self._changed:
                self.of_waits += 1
                self._changed.notify_all()
            return wait(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(ClientCommitter, "wait", counted)

    def until(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.of_waits >= count, 60)


# M: P-10
def test_while_fifty_clients_wait_they_ask_once_each_and_read_nothing(
    url: str, coordinators: RunningCoordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_module, "ROUND_MS", NEVER_MS)
    posts = Posts(monkeypatch)
    coordinators.start().wait_for("leads")
    with ExitStack() as connections, connect(url) as writer:
        clients = [WaitingClient(connections.enter_context(connect(url))) for _ in range(CLIENTS)]
        posts.until(CLIENTS)
        for _ in range(10):
            write(writer, partition=1)  # nothing for them
        assert [client.store.calls for client in clients] == [[]] * CLIENTS
        write(writer)
        assert all(client.join() for client in clients)
        assert posts.of_waits == CLIENTS
        assert {client.store.count("get", "meta/void/") for client in clients} == {1}, "each has caught up once"


# M: P-10 (kills)
def test_a_client_that_waits_when_its_coordinator_is_killed_waits_on_at_the_next_one(
    url: str, coordinators: RunningCoordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    posts = Posts(monkeypatch)
    first = coordinators.start()
    first.wait_for("leads")
    second = coordinators.start()
    with connect(url) as waiting, connect(url) as writer:
        client = WaitingClient(waiting)
        posts.until(1)
        first.kill()
        second.wait_for("leads")
        write(writer)
        assert client.join()
        assert waiting.connection.follower.catch_up().state.coordinator.address == second.address


# M: P-10
def test_a_coordinator_that_stops_lets_its_clients_wait_by_themselves(
    url: str, coordinators: RunningCoordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_module, "ROUND_MS", NEVER_MS)
    posts = Posts(monkeypatch)
    only = coordinators.start()
    only.wait_for("leads")
    with connect(url) as waiting, connect(url) as writer:
        client = WaitingClient(waiting)
        posts.until(1)
        only.send(signal.SIGTERM)
        assert only.process.wait(60) == 0
        write(writer)
        assert client.join()


# M: P-10
def test_a_pulled_write_is_acknowledged_when_its_follower_has_fetched_it(
    url: str, coordinators: RunningCoordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent hears of the write and the writer of the report by the coordinator: either would look too late."""
    posts = Posts(monkeypatch)
    coordinators.start().wait_for("leads")
    up = threading.Event()

    def say(note: Note) -> None:
        if note.event == "up":
            up.set()

    with connect(url) as writer, connect(url) as following:
        agent = AgentRun(following.connection, StoreId("b"), say)
        thread = threading.Thread(target=agent.run)
        thread.start()
        try:
            assert up.wait(60)
            posts.until(1)
            for _ in range(3):
                writer.append("u", pa.table({"value": ["x"]}), replication="pull", timeout_ms=60_000)
            assert writer.read("u", partition=0).num_rows == 3
        finally:
            agent.stop()
            thread.join(60)
        assert not thread.is_alive()


# M: P-10
def test_consume_follow_prints_what_comes_and_ends_with_an_interrupt(
    url: str, coordinators: RunningCoordinators
) -> None:
    coordinators.start().wait_for("leads")
    command = [sys.executable, "-m", "sparklog", "--cluster", url, "--format", "json", "consume", "t", "--follow"]
    with connect(url) as writer, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        try:
            for partition in (0, 1, 0):
                write(writer, partition)
                assert json.loads(consumer.stdout.readline())["partition"] == partition
            consumer.send_signal(signal.SIGINT)
            assert consumer.wait(60) == 130
        finally:
            consumer.kill()


# M: P-10
def test_an_interrupt_that_python_drops_still_ends_consume(url: str, coordinators: RunningCoordinators) -> None:
    """What a finalizer raises is dropped: here SIGINT arrives while a reply with entries of the chain is finalized."""
    leader = coordinators.start()
    leader.wait_for("leads")
    with connect(url) as writer:
        write(writer)
    command = [sys.executable, "-c", INTERRUPTED_FINALIZER, "--cluster", leader.address, "consume", "t", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        try:
            assert "interrupted\n" in consumer.stdout
            assert consumer.wait(60) == 130
        finally:
            consumer.kill()
