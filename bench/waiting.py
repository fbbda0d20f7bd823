"""Clients that wait: how soon they are woken, beside a look every 200 ms; and what ten thousand of them cost.

python -m bench.waiting        prints a line per figure
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import quantiles

import msgspec
import psutil
import pyarrow as pa

import sparklog
from bench.children import ended_on_failure
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.commands import CreateTopic
from sparklog.core.describe.readable import counted
from sparklog.core.purgatory import Purgatory, Records
from sparklog.core.reading.positions import Position
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, LeaderEpoch, Offset, PartitionIndex, TopicId
from sparklog.wire.messages import CLUSTER, WAIT, ClusterReply, WaitRequest
from tests.core.replicated_log import ReplicatedLog

WAITING = 10_000
PARTITIONS = 10_000
WAKES = 200
WATCHED_S = 10.0  # for processor time while nothing happens


def waits() -> list[tuple[str, str]]:
    """Rows for the report: (what was measured, its figure)."""
    rows = [_entries()]
    with tempfile.TemporaryDirectory(prefix="sparklog-waiting-") as name:
        rows += _wakes(Path(name))
    for what, figure in rows:
        print(f"{what}: {figure}", flush=True)
    return rows


# ---- the purgatory alone ----------------------------------------------------------------------------


def _entries() -> tuple[str, str]:
    """An entry that changes one of many partitions, each watched by somebody."""
    log = ReplicatedLog(config={"default.replication.factor": "1"})
    log.submit(CreateTopic("wide", PARTITIONS, 1))
    topic = log.state.topic_ids["wide"]
    purgatory = Purgatory(log.state.fork())
    for number in range(WAITING):
        purgatory.add(Records((_position(log.state, topic, number),)), EntryNumber(log.state.n))
    took_us: list[float] = []
    for _ in range(WAKES):
        log.write("abc")
        state = log.state.fork()
        begin = time.perf_counter()
        assert purgatory.advance(state) == []
        took_us.append((time.perf_counter() - begin) * 1e6)
    at = quantiles(took_us, n=100)
    return "entries beside those who wait", (
        f"{counted(WAITING, 'reader')} of {counted(PARTITIONS, 'partition')} wait: an entry that concerns none of them "
        f"costs the coordinator {at[49]:.0f} µs more (p99 {at[98]:.0f} µs)"
    )


def _position(state: ClusterState, topic: TopicId, partition: int) -> Position:
    return Position(state.chain_id, topic, PartitionIndex(partition), Offset(0), LeaderEpoch(0))


# ---- over HTTP --------------------------------------------------------------------------------------


def _wakes(folder: Path) -> list[tuple[str, str]]:
    url = f"file://{folder}/cluster"
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=2)
    polled = _latency(url, _poll)
    command = [sys.executable, "-m", "sparklog", "--cluster", url, "coordinator"]
    with ended_on_failure(), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        while "leads" not in (line := server.stdout.readline()):
            assert line
        try:
            woken = _latency(url, _wait)
            crowd = _crowd(url, psutil.Process(server.pid))
        finally:
            server.terminate()
            server.wait()
    return [
        (
            "from an append's ack to a consumer that waits",
            f"p50 {woken[0]:.1f} ms, p99 {woken[1]:.1f} ms; with a look every 200 ms p50 {polled[0]:.0f} ms, "
            f"p99 {polled[1]:.0f} ms",
        ),
        ("ten thousand who wait", crowd),
    ]


def _latency(url: str, wait: Callable[[Cluster, Records], None]) -> tuple[float, float]:
    """p50 and p99 of the time from an acknowledged append to the return of one who waits for it, in ms."""
    took_ms: list[float] = []
    dice = Random(1)
    with sparklog.connect(url) as writer, sparklog.connect(url) as reader:
        for _ in range(WAKES):
            state = reader.connection.follower.catch_up().state
            value = state.partitions_of(state.topics[TopicId(1)])[0].replication
            at = Position(state.chain_id, TopicId(1), PartitionIndex(0), value.high_watermark, value.leader_epoch)
            returned: list[float] = []

            def waited(wanted: Records, returned: list[float]) -> None:
                wait(reader, wanted)
                returned.append(time.perf_counter())

            thread = threading.Thread(target=waited, args=(Records((at,)), returned))
            thread.start()
            time.sleep(dice.uniform(0.02, 0.22))
            writer.append("t", pa.table({"value": ["x"], "partition": pa.array([0], pa.int32())}))
            acknowledged = time.perf_counter()
            thread.join()
            took_ms.append(max(0.0, returned[0] - acknowledged) * 1000)
    at_percent = quantiles(took_ms, n=100)
    return at_percent[49], at_percent[98]


def _wait(cluster: Cluster, wanted: Records) -> None:
    assert cluster.connection.waiting.watch().wait(wanted, 60_000)


def _poll(cluster: Cluster, wanted: Records) -> None:
    (position,) = wanted.positions
    while (
        cluster.connection.follower.catch_up()
        .state.partitions_of(  # as consumers did before they could wait
            cluster.connection.follower.state.topics[position.topic_id]
        )[0]
        .high_watermark
        <= position.offset
    ):
        time.sleep(0.2)


def _crowd(url: str, server: psutil.Process) -> str:
    """Memory and processor time of the coordinator while so many wait, and how long it takes to wake them all."""
    with sparklog.connect(url) as cluster:
        known = cluster.connection.follower.catch_up().state.coordinator
        with urllib.request.urlopen(known.address + CLUSTER) as answer:
            described = msgspec.msgpack.decode(answer.read(), type=ClusterReply)
        command = [sys.executable, "-m", "bench.waiting", "--crowd", known.address]
        before = server.memory_info().rss
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
            assert crowd.stdin is not None
            assert crowd.stdout is not None
            state = cluster.connection.follower.state
            end = state.partitions_of(state.topics[TopicId(1)])[1].high_watermark
            at = Position(described.chain_id, TopicId(1), PartitionIndex(1), end, LeaderEpoch(0))
            request = WaitRequest(described.chain_id, EntryNumber(0), Records((at,)), 60_000)
            crowd.stdin.write(msgspec.json.encode(request).decode() + "\n")
            crowd.stdin.flush()
            there = int(crowd.stdout.readline())
            _settle(server)
            memory = (server.memory_info().rss - before) / there
            cpu = sum(server.cpu_times()[:2])
            time.sleep(WATCHED_S)
            idle = (sum(server.cpu_times()[:2]) - cpu) / WATCHED_S
            begin = time.time()
            cluster.append("t", pa.table({"value": ["x"], "partition": pa.array([1], pa.int32())}))
            acknowledged = time.time()
            last = float(crowd.stdout.readline())
    ack_ms, wake_s = (acknowledged - begin) * 1000, last - acknowledged
    return (
        f"{there} requests wait on as many connections: {memory / 1024:.1f} KiB of the coordinator's memory each, "
        f"{idle * 100:.1f} % of a core while nothing happens; an append that all of them wait for is acknowledged "
        f"after {ack_ms:.0f} ms, and the last one has its reply {wake_s:.1f} s later"
    )


def _settle(server: psutil.Process) -> None:
    """Wait until it has taken in what was sent: for a second it has done next to nothing."""
    spent = -1.0
    while (now := sum(server.cpu_times()[:2])) - spent > 0.05:
        spent = now
        time.sleep(1)


def _be_a_crowd(address: str) -> None:
    """Send the request that comes on stdin over each connection. Prints how many wait, and when the last was woken."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    body = msgspec.msgpack.encode(msgspec.json.decode(sys.stdin.readline(), type=WaitRequest))
    asyncio.run(_crowd_waits(address, body, min(WAITING, hard - 100)))


async def _crowd_waits(address: str, body: bytes, count: int) -> None:
    host, _, port = address.removeprefix("http://").rpartition(":")
    head = f"POST {WAIT} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    sent = 0
    at_once = asyncio.Semaphore(200)
    all_sent = asyncio.Event()

    async def client() -> None:
        nonlocal sent
        async with at_once:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(head + body)
            await writer.drain()
            sent += 1
            if sent == count:
                all_sent.set()
        status = await reader.readline()
        assert b" 200 " in status, status
        writer.close()

    clients = [asyncio.create_task(client()) for _ in range(count)]
    await all_sent.wait()
    print(count, flush=True)
    await asyncio.gather(*clients)
    print(time.time(), flush=True)


if __name__ == "__main__":
    if "--crowd" in sys.argv:
        _be_a_crowd(sys.argv[-1])
    else:
        waits()
