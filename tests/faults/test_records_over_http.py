"""Programs without a client at real coordinators: kills, changes of the leader, many at once, and slow ones."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.coordinator.http.produce_routes import MOST_BODY
from tests.faults.killed_append import AFTER_COMMIT, BEFORE_COMMIT, VARIABLE
from tests.faults.running_coordinators import (
    SESSION_MS,
    RunningCoordinator,
    RunningCoordinators,
    running_coordinators,
    wait_until_ready,
)
from tests.kit.log import values

PATH = "/v1/topics/t/records"
HEADERS = {"content-type": "application/json", "accept": "application/json"}
PRODUCERS = 10
PATIENCE_S = 120.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    url = f"file://{tmp_path}/cluster"
    init_cluster(url, config={"broker.session.timeout.ms": SESSION_MS})
    with connect(url) as cluster:
        cluster.create_topic("t", partitions=PRODUCERS)
        yield cluster


@pytest.fixture
def coordinators(cluster: Cluster) -> Iterator[RunningCoordinators]:
    with running_coordinators(cluster.connection.url) as running:
        yield running


def ask(address: str, method: str, path: str, body: object = None, timeout_s: float = 60) -> tuple[int, Any]:
    """The status and the reply. Raises OSError or HTTPException if none comes."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=timeout_s)
    try:
        connection.request(method, path, body if isinstance(body, bytes) else json.dumps(body), HEADERS)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def read(address: str, query: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    try:
        connection.request("GET", f"{PATH}?{query}", headers={"accept": "application/json"})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def new_producer(address: str) -> dict[str, int]:
    status, reply = ask(address, "POST", "/v1/producers", {})
    assert status == 200, reply
    return {name: reply[name] for name in ("producer_id", "producer_epoch")}


def offsets(reply: Any) -> list[int]:
    return [record["offset"] for record in reply["records"]]


def leads(coordinator: RunningCoordinator) -> str:
    coordinator.wait_for("leads")
    return coordinator.address


# M: N-01 (kills)
@pytest.mark.parametrize(("moment", "landed"), [(BEFORE_COMMIT, False), (AFTER_COMMIT, True)])
def test_a_coordinator_that_is_killed_leaves_all_of_an_append_or_nothing(
    cluster: Cluster, coordinators: RunningCoordinators, moment: str, landed: bool, tmp_path: Path
) -> None:
    doomed = coordinators.start(module="tests.faults.killed_append", variables={VARIABLE: moment})
    address = leads(doomed)
    records = [{"value": str(number), "partition": 3} for number in range(3)]
    body = {"records": records, "producer": {**new_producer(address), "sequence": 0}}
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(address, "POST", PATH, body)
    assert doomed.process.wait() == -9
    assert len(list((tmp_path / "cluster" / "append").rglob("*.arrow"))) == 1, "the records are uploaded"
    assert values(cluster, 3) == (["0", "1", "2"] if landed else [])
    address = leads(coordinators.start())
    for _ in range(2):
        status, reply = ask(address, "POST", PATH, body)
        assert (status, offsets(reply)) == (200, [0, 1, 2])
    assert values(cluster, 3) == ["0", "1", "2"]
    assert read(address, "partition=3&max_records=2")[1]["next"] == 2


class SimpleProducer(threading.Thread):
    """Appends numbers to its own partition until it is stopped, one after the other, wherever the leader is.

    A request without an answer, or with an error that is retriable, is repeated under the same sequence.
    """

    def __init__(self, partition: int, addresses: list[str]) -> None:
        super().__init__(daemon=True)
        self.partition = partition
        self.addresses = addresses
        self.acknowledged = 0
        self.retried = 0
        self.stopped = threading.Event()
        self.refused: Any = None
        self.identity = new_producer(addresses[0])

    def run(self) -> None:
        number = at = 0
        while not self.stopped.is_set():
            record = {"key": "k", "value": str(number), "partition": self.partition}
            body = {"records": [record], "producer": {**self.identity, "sequence": number}}
            try:
                status, reply = ask(self.addresses[at % len(self.addresses)], "POST", PATH, body, timeout_s=10)
            except (OSError, http.client.HTTPException):
                status, reply = 0, {"retriable": True}
            if status == 200:
                if offsets(reply) != [number]:
                    self.refused = reply
                    return
                number += 1
                self.acknowledged = number
            elif reply["retriable"] or reply.get("landed") == "unknown":
                at += 1
                self.retried += 1
                time.sleep(0.05)
            else:
                self.refused = reply
                return


# M: N-01 (kills)
@pytest.mark.slow
def test_ten_producers_write_each_record_once_while_the_leader_changes(
    cluster: Cluster, coordinators: RunningCoordinators
) -> None:
    first, second = coordinators.start(), coordinators.start()
    wait_until_ready(first.address)
    addresses = [first.address, second.address]
    if cluster.connection.newest_state().coordinator.address != first.address:
        first, second, addresses = second, first, addresses[::-1]
    producers = [SimpleProducer(partition, addresses) for partition in range(PRODUCERS)]
    for each in producers:
        each.start()

    def all_reach(more: int) -> None:
        goals = [each.acknowledged + more for each in producers]
        end_s = time.monotonic() + PATIENCE_S
        while any(each.acknowledged < goal for each, goal in zip(producers, goals, strict=True)):
            assert time.monotonic() < end_s, [each.acknowledged for each in producers]
            assert [each.refused for each in producers if each.refused] == []
            time.sleep(0.05)

    all_reach(5)
    first.kill()
    all_reach(5)
    for each in producers:
        each.stopped.set()
    for each in producers:
        each.join(60)
    assert [each.refused for each in producers if each.refused] == []
    assert sum(each.retried for each in producers) > 0, "the kill was noticed"
    for each in producers:
        found = values(cluster, each.partition)
        assert found == [str(number) for number in range(len(found))]
        assert len(found) >= each.acknowledged


def memory_mib(coordinator: RunningCoordinator) -> float:
    """The most memory that the process has had."""
    status = Path(f"/proc/{coordinator.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_large_and_hostile_bodies_take_a_bounded_amount_of_memory(
    cluster: Cluster, coordinators: RunningCoordinators
) -> None:
    running = coordinators.start()
    address = leads(running)
    filler = MOST_BODY - 1_000
    bodies = [
        b'{"records":[' + b",".join([b'{"value":null}'] * (filler // 15)) + b"]}",
        b'{"records":[{"value":"x","headers":[' + b",".join([b'{"key":""}'] * (filler // 11)) + b"]}]}",
        json.dumps({"records": [{"value": "x" * 100_000}] * (filler // 100_100)}).encode(),
        b'{"records":[{"value":"' + b"\\u0001" * (filler // 6) + b'"}]}',
        b'{"base64":true,"records":[{"value":"' + base64.b64encode(b"\0" * 700_000) + b'"}]}',
        b"[" * filler,
    ]
    ask(address, "POST", PATH, {"records": [{"value": "warm"}]})
    before = memory_mib(running)
    statuses: set[int] = set()

    def send(body: bytes) -> None:
        for _ in range(3):
            try:
                statuses.add(ask(address, "POST", PATH, body)[0])
            except OSError:
                statuses.add(0)

    threads = [threading.Thread(target=send, args=(body,)) for body in bodies * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses <= {200, 400, 503}
    assert memory_mib(running) - before < 600
    assert ask(address, "POST", PATH, {"records": [{"value": "x", "partition": 0}]})[0] == 200


@pytest.mark.slow
def test_readers_that_are_slow_or_wait_hold_up_nobody(cluster: Cluster, coordinators: RunningCoordinators) -> None:
    address = leads(coordinators.start())
    for _ in range(8):
        body = {"records": [{"value": "y" * 1_000_000, "partition": 0}]}
        assert ask(address, "POST", PATH, body)[0] == 200
    place = urlsplit(address)
    assert place.hostname is not None
    sockets = []
    try:
        query = "partition=0&max_bytes=8000000"
        for wanted in [query] * 12 + ["partition=1&max_wait_ms=60000"] * 100:
            slow = socket.create_connection((place.hostname, place.port or 0), timeout=60)
            slow.sendall(f"GET {PATH}?{wanted} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            sockets.append(slow)
        time.sleep(1)
        began_s = time.monotonic()
        for number in range(10):
            status, reply = ask(address, "POST", PATH, {"records": [{"value": str(number), "partition": 2}]})
            assert (status, offsets(reply)) == (200, [number])
            assert read(address, f"partition=2&offset={number}")[1]["next"] == number + 1
        assert time.monotonic() - began_s < 30
        assert ask(address, "POST", PATH, {"records": [{"value": "wake", "partition": 1}]})[0] == 200
        for waiting in sockets[12:]:
            assert waiting.recv(12) == b"HTTP/1.1 200"
    finally:
        for each in sockets:
            each.close()
