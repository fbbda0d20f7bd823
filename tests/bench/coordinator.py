"""Commits through a coordinator over HTTP, its metadata on a store whose puts take as long as those in a cloud.

python -m tests.bench.coordinator        prints a line per figure
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from statistics import quantiles

import msgspec

import sparklog
from sparklog.chain.committer import new_command_id
from sparklog.chain.follower import Follower
from sparklog.client.bootstrap import init_cluster
from sparklog.coordinator.run import serve
from sparklog.coordinator.service import Service
from sparklog.core.commands import Submission
from sparklog.core.readable import counted
from sparklog.core.types import EntryNumber, Holder, StoreId
from sparklog.wire.messages import CLUSTER, SUBMIT, ClusterReply, SubmitRequest, SubmittedCommand
from tests.bench.children import ended_on_failure
from tests.bench.commits import PARTITIONS, PUT_S, SlowStore
from tests.chain.chain_kit import append

CLIENTS = (256, 512)
SECONDS = 8.0
HOLDERS = (Holder(StoreId("local"), 0),)


def coordinated_rates() -> list[tuple[str, str]]:
    """Rows for the report: (what was measured, its figure)."""
    return [_through_http(clients) for clients in CLIENTS]


def _through_http(clients: int) -> tuple[str, str]:
    command = [sys.executable, "-m", "tests.bench.coordinator", "--serve"]
    with ended_on_failure(), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        with urllib.request.urlopen(address + CLUSTER) as answer:
            cluster = msgspec.msgpack.decode(answer.read(), type=ClusterReply)
        port = int(address.rpartition(":")[2])
        took_ms, elapsed_s = asyncio.run(_clients(port, cluster, clients))
        server.terminate()
        processor_s = float(server.stdout.read().strip().splitlines()[-1])
    at = quantiles(took_ms, n=100)
    rate = len(took_ms) / elapsed_s
    figure = (
        f"{PUT_S * 1000:.0f} ms a put, {counted(clients, 'client')} with one append each: {rate:.0f} appends/s "
        f"(at most {clients / PUT_S:.0f} with these clients), p50 {at[49]:.0f} ms, p99 {at[98]:.0f} ms, "
        f"{processor_s / len(took_ms) * 1e6:.0f} µs of the coordinator's processor time each (goal >= 5000 appends/s)"
    )
    print(f"commits over HTTP: {figure}", flush=True)
    return "commits over HTTP", figure


async def _clients(port: int, cluster: ClusterReply, clients: int) -> tuple[list[float], float]:
    """How long each append took, in ms, and all of them together."""
    took_ms: list[float] = []
    begin = time.perf_counter()
    end = begin + SECONDS

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            body = _request(cluster, number)
            head = f"POST {SUBMIT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            sent = time.perf_counter()
            writer.write(head.encode() + body)
            reply = await reader.readuntil(b"\r\n\r\n")
            assert reply.startswith(b"HTTP/1.1 200"), reply
            length = next(line for line in reply.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            took_ms.append((time.perf_counter() - sent) * 1000)
        writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return took_ms, time.perf_counter() - begin


def _request(cluster: ClusterReply, number: int) -> bytes:
    n0 = EntryNumber(1)
    command = append(partition=number % PARTITIONS, n0=n0, holders=HOLDERS)
    submission = Submission(new_command_id(), n0, command)
    return msgspec.msgpack.encode(SubmitRequest(cluster.chain_id, n0, (SubmittedCommand(submission, 60_000),)))


def _serve() -> None:
    """A coordinator in this process. Prints its address, and at the end the processor time of its requests."""
    store = SlowStore(f"memory://{uuid.uuid4().hex}")
    init_cluster(store.url)
    with sparklog.connect(store.url) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, config={"retention.ms": -1})
    follower = Follower(store)
    follower.open()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2_048)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    before = time.process_time()

    def say(event: str, text: str) -> None:
        if event == "leads":
            store.slow = True
            print(address, flush=True)

    service = Service(follower, store.url, address, session_ms=9_000, queued_max=10_000, say=say)
    serve(service, listener, lambda: None)
    print(time.process_time() - before, flush=True)


if __name__ == "__main__":
    if "--serve" in sys.argv:
        _serve()
    else:
        coordinated_rates()
