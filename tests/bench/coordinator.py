"""Commits through a coordinator over HTTP, its metadata on a store whose puts take as long as those in a cloud.

python -m tests.bench.coordinator                   prints a line per figure
python -m tests.bench.coordinator rates             only some: rates, producers, failover, waiting
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from statistics import quantiles

import msgspec
import uvloop

import sparklog
from sparklog.chain.follower import Follower
from sparklog.client.bootstrap import init_cluster
from sparklog.coordinator.run import serve
from sparklog.coordinator.service import Service
from sparklog.core.commands import Submission
from sparklog.core.readable import counted
from sparklog.core.types import CommandId, EntryNumber, Holder, StoreId, UploadId
from sparklog.wire.messages import CLUSTER, SUBMIT, ClusterReply, SubmitReply, SubmitRequest, SubmittedCommand
from tests.bench.children import ended_on_failure
from tests.bench.commits import PARTITIONS, PUT_S, SlowStore
from tests.chain.chain_kit import append

CLIENTS = 256
IN_FLIGHT = (1, 4)  # appends of each client, in one request
SECONDS = 8.0
HOLDERS = (Holder(StoreId("local"), 0),)
Row = tuple[str, str]
Send = Callable[[bytes], Awaitable[bytes]]  # a request -> its reply


def coordinated_rates() -> list[Row]:
    """Rows for the report: (what was measured, its figure). The machine alone and HTTP take turns."""
    return [_rate(in_flight, alone=alone) for in_flight in IN_FLIGHT for alone in (True, False)]


def _rate(in_flight: int, *, alone: bool) -> Row:
    with _coordinator("--alone" if alone else "--serve", str(in_flight)) as (server, first_line):
        if alone:
            took_ms, elapsed_s = msgspec.json.decode(first_line, type=tuple[list[float], float])
        else:
            took_ms, elapsed_s = uvloop.run(_clients(first_line, in_flight))
        server.terminate()
        assert server.stdout is not None
        processor_s, entries = (float(word) for word in server.stdout.read().split()[-2:])
    at = quantiles(took_ms, n=100)
    appends = len(took_ms) * in_flight
    way = "without HTTP" if alone else "over HTTP"
    return _row(
        f"commits {way}",
        f"{PUT_S * 1000:.0f} ms a put, {counted(CLIENTS, 'client')} with {counted(in_flight, 'append')} each: "
        f"{appends / elapsed_s:.0f} appends/s (at most {CLIENTS * in_flight / PUT_S:.0f} with these clients), "
        f"p50 {at[49]:.0f} ms, p99 {at[98]:.0f} ms, {processor_s / appends * 1e6:.0f} µs of the coordinator's "
        f"processor time each, {appends / max(entries, 1):.0f} an entry (goal >= 5000 appends/s)",
    )


async def _clients(address: str, in_flight: int) -> tuple[list[float], float]:
    """How long each request took, in ms, and all of them together."""
    with urllib.request.urlopen(address + CLUSTER) as answer:
        cluster = msgspec.msgpack.decode(answer.read(), type=ClusterReply)
    port = int(address.rpartition(":")[2])

    async def connected(number: int) -> Send:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def send(body: bytes) -> bytes:
            writer.write(b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (SUBMIT.encode(), len(body)))
            writer.write(body)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            return await reader.readexactly(int(length.partition(b":")[2]))

        return send

    return await _busy(cluster.chain_id, in_flight, [await connected(number) for number in range(CLIENTS)])


async def _busy(chain_id: str, in_flight: int, clients: list[Send]) -> tuple[list[float], float]:
    """Let each client send one request after the other: how long each took, in ms, and all of them together."""
    took_ms: list[float] = []
    begin = time.perf_counter()
    end = begin + SECONDS

    async def client(number: int, send: Send) -> None:
        bodies = _requests(chain_id, number, in_flight)
        while time.perf_counter() < end:
            body = next(bodies)
            sent = time.perf_counter()
            reply = await send(body)
            took_ms.append((time.perf_counter() - sent) * 1000)
        outcomes = msgspec.msgpack.decode(reply, type=SubmitReply).outcomes
        assert all(each.error is None for each in outcomes), outcomes

    await asyncio.gather(*(client(number, send) for number, send in enumerate(clients)))
    return took_ms, time.perf_counter() - begin


def _requests(chain_id: str, client: int, in_flight: int) -> Iterator[bytes]:
    """Requests of one client, each with ids of its own, put into an encoded one: clients should cost little."""
    drawn = uuid.uuid4().hex[:16]
    marks = [f"{number:032x}" for number in range(2 * in_flight)]
    n0 = EntryNumber(1)
    commands = []
    for number in range(in_flight):
        command = append(
            partition=(client + number) % PARTITIONS,
            n0=n0,
            holders=HOLDERS,
            upload_id=UploadId(marks[2 * number]),
        )
        commands.append(SubmittedCommand(Submission(CommandId(marks[2 * number + 1]), n0, command), 60_000))
    text = msgspec.msgpack.encode(SubmitRequest(chain_id, n0, tuple(commands)))
    count = 0
    while True:
        body = text
        for mark in marks:
            count += 1
            body = body.replace(mark.encode(), f"{drawn}{count:016x}".encode(), 1)
        yield body


# ---- the process of the coordinator ---------------------------------------------------------------------


@contextmanager
def _coordinator(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of this module, and the first line that it printed."""
    command = [sys.executable, "-m", "tests.bench.coordinator", *arguments]
    with ended_on_failure(), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


def _serve(in_flight: int | None) -> None:
    """A coordinator. Prints its address; at the end the processor time of its requests, and its entries.

    With `in_flight` its clients are tasks of this process, and it prints how long their requests took.
    """
    store = SlowStore(f"memory://{uuid.uuid4().hex}")
    init_cluster(store.url)
    with sparklog.connect(store.url) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, config={"retention.ms": -1})
    follower = Follower(store)
    follower.open()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2_048)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    before = (time.process_time(), follower.head.n)
    alone: list[asyncio.Task[None]] = []

    def say(event: str, text: str) -> None:
        if event == "leads":
            store.slow = True
            if in_flight is None:
                print(address, flush=True)
            else:
                alone.append(asyncio.get_running_loop().create_task(_alone(service, in_flight)))

    service = Service(follower, store.url, address, session_ms=9_000, queued_max=10_000, say=say)
    serve(service, listener, lambda: None)
    print(time.process_time() - before[0], follower.head.n - before[1], flush=True)


async def _alone(service: Service, in_flight: int) -> None:
    decoder, encoder = msgspec.msgpack.Decoder(SubmitRequest), msgspec.msgpack.Encoder()

    async def send(body: bytes) -> bytes:
        return encoder.encode(await service.submit(decoder.decode(body)))

    print(msgspec.json.encode(await _busy(service.follower.state.chain_id, in_flight, [send] * CLIENTS)).decode())
    sys.stdout.flush()


def _row(what: str, figure: str) -> Row:
    print(f"{what}: {figure}", flush=True)
    return what, figure


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--serve", *_]:
            _serve(None)
        case ["--alone", in_flight]:
            _serve(int(in_flight))
        case _:
            print(f"load of the machine: {os.getloadavg()[0]:.1f}")
            coordinated_rates()
