"""Commits through a coordinator over HTTP, its metadata on a store whose puts take as long as those in a cloud.

python -m bench.coordinator                   prints a line per figure
python -m bench.coordinator rates             only some: rates, producers, waiting, failover
python -m bench.coordinator waiting /PATH     connections that wait for what this path answers
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import msgspec
import psutil
import pyarrow as pa
import urllib3
import uvloop

import sparklog
from bench.children import ended_on_failure
from bench.commits import PARTITIONS, PUT_S, SlowStore
from sparklog.chain.commit.committer import new_command_id
from sparklog.chain.follow.follower import Follower
from sparklog.client.bootstrap import init_cluster
from sparklog.client.commits.shared_requests import CommandOutcome, SharedRequests
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.run import OPEN, serve
from sparklog.core.commands import Submission
from sparklog.core.coordination import Coordinator
from sparklog.core.describe.readable import counted
from sparklog.core.types import CommandId, EntryNumber, Holder, StoreId, UploadId
from sparklog.host.open_files import most_open_files
from sparklog.wire.messages import CLUSTER, SUBMIT, ClusterReply, SubmitReply, SubmitRequest, SubmittedCommand
from tests.chain.chain_kit import append
from tests.faults.running_coordinators import SESSION_MS, running_coordinators

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
            writer.write(
                b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % (SUBMIT.encode(), len(body))
            )
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


# ---- producers: threads of one process ------------------------------------------------------------------


def producers() -> list[Row]:
    """How many commands of a request come together by themselves, from threads that append one after the other."""
    return [_producers(threads) for threads in (1, 4, 32)]


def _producers(threads: int) -> Row:
    with _coordinator("--serve") as (_, address):
        with urllib.request.urlopen(address + CLUSTER) as answer:
            cluster = msgspec.msgpack.decode(answer.read(), type=ClusterReply)
        sizes: list[int] = []
        port = int(address.rpartition(":")[2])
        pool = urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=32)
        decoder = msgspec.msgpack.Decoder(SubmitReply)

        def post(known: Coordinator, bodies: Sequence[msgspec.Raw], patience_ms: int) -> Sequence[CommandOutcome]:
            sizes.append(len(bodies))
            request = {"chain_id": cluster.chain_id, "seen": 1, "commands": bodies}
            reply = decoder.decode(pool.request("POST", SUBMIT, body=msgspec.msgpack.encode(request)).data)
            return [each.result for each in reply.outcomes if each.result is not None]

        shared = SharedRequests(post)
        took_ms: list[float] = []
        begin = time.perf_counter()

        def work(number: int) -> None:
            n0 = EntryNumber(1)
            while time.perf_counter() < begin + SECONDS:
                command = append(partition=number % PARTITIONS, n0=n0, holders=HOLDERS)
                sent = time.perf_counter()
                shared.submit(cluster.coordinator, Submission(new_command_id(), n0, command), 60_000, 60_000)
                took_ms.append((time.perf_counter() - sent) * 1000)

        with ThreadPoolExecutor(threads) as workers:
            list(workers.map(work, range(threads)))
        elapsed_s = time.perf_counter() - begin
    return _row(
        f"producers of one process, {counted(threads, 'thread')}",
        f"{len(took_ms) / elapsed_s:.0f} appends/s (at most {threads / PUT_S:.0f}), p50 {median(took_ms):.0f} ms, "
        f"{len(took_ms) / len(sizes):.1f} commands a request",
    )


# ---- failover -------------------------------------------------------------------------------------------


def failover(folder: Path) -> list[Row]:
    """From kill -9 of the leader to the next acknowledged commit, a standby being there."""
    url = f"file://{folder}/failover"
    init_cluster(url, config={"broker.session.timeout.ms": SESSION_MS})
    took_s = []
    with sparklog.connect(url) as cluster, running_coordinators(url) as running:
        cluster.create_topic("t")
        leader = running.start()
        leader.wait_for("leads")
        for _ in range(3):
            standby = running.start()
            standby.wait_for("stands-by")
            cluster.append("t", pa.table({"value": ["x"]}))
            begin = time.perf_counter()
            leader.kill()
            cluster.append("t", pa.table({"value": ["x"]}))
            took_s.append(time.perf_counter() - begin)
            leader = standby
    figure = (
        f"{', '.join(f'{each:.1f}' for each in sorted(took_s))} s with a session of {SESSION_MS / 1000:.0f} s "
        f"(goal: at most {SESSION_MS / 1000 + 1:.0f} s)"
    )
    return [_row("kill -9 of the leader to the next commit", figure)]


# ---- connections that wait ------------------------------------------------------------------------------


def waiting(path: str = "/healthz", count: int = 10_000) -> list[Row]:
    """Memory of a coordinator with so many connections that have asked for `path` and are left open."""
    most_open_files()
    with _coordinator("--serve") as (server, address):
        process = psutil.Process(server.pid)
        before = process.memory_info().rss
        opened = []
        for number in range(count):
            opened.append(socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))))
            opened[-1].sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            if number % 1_000 == 999:
                with urllib.request.urlopen(address + "/healthz") as answer:  # so far it has come
                    answer.read()
        bytes_each = (process.memory_info().rss - before) / count
        held = process.num_fds()
        for each in opened:
            each.close()
    figure = f"{bytes_each / 1024:.1f} KiB each, {bytes_each * count / 2**20:.0f} MiB together ({held} files open)"
    return [_row(f"memory of {count} connections that asked for {path}", figure)]


# ---- the process of the coordinator ---------------------------------------------------------------------


@contextmanager
def _coordinator(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of this module, and the first line that it printed."""
    command = [sys.executable, "-m", "bench.coordinator", *arguments]
    with ended_on_failure(), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.terminate()
        process.communicate()


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
    serve(service, listener, OPEN, lambda: None)
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
        case parts:
            print(f"load of the machine: {os.getloadavg()[0]:.1f}")
            if not parts or "rates" in parts:
                coordinated_rates()
            if not parts or "producers" in parts:
                producers()
            if not parts or "waiting" in parts:
                waiting(*[part for part in parts if part.startswith("/")])
            if not parts or "failover" in parts:
                with tempfile.TemporaryDirectory(prefix="sparklog-failover-") as name:
                    failover(Path(name))
