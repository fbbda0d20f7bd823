"""Replies with records count until they are written: slow readers take bounded memory, and keep nobody out for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from sparklog.coordinator.http import consume_routes, record_replies
from sparklog.coordinator.http.connection_table import ConnectionLimits
from sparklog.coordinator.http.exchange import SMALL_BODY
from sparklog.coordinator.http.record_replies import DROP, SLOW_MS, Replies
from sparklog.core.errors import TryAgain
from sparklog.wire.record_messages import RecordsReply
from tests.chain.chain_kit import member
from tests.coordinator.http_server import Client, Served, head, served
from tests.coordinator.record_client import path_of
from tests.kit.log import new_cluster, rows

LARGE = b"x" * (SMALL_BODY + 400_000)
PATIENT = ConnectionLimits(sweep_s=3_600.0)
READ = head("GET", f"{path_of('orders')}?max_bytes=8388608", "accept: application/json")


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


class Reader:
    """A connection whose client reads its reply when a test says so."""

    def __init__(self, replies: Replies, body: bytes = LARGE) -> None:
        self.dropped = False
        self.reads = asyncio.Event()
        self.got: list[bytes] = []
        scope = {"type": "http", DROP: self.drop}
        response = replies.held_reply(Request(scope), Response(body, media_type="application/json"))
        self.done = asyncio.create_task(response(scope, self.receive, self.send))

    def drop(self) -> None:
        self.dropped = True
        self.reads.set()

    async def receive(self) -> Any:
        raise AssertionError("it asks for nothing")

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.got.append(message.get("body", b""))


def of_replies(work: Callable[[Replies, Clock], Any]) -> None:
    async def run() -> None:
        clock = Clock()
        await work(Replies(1_000_000, clock), clock)

    asyncio.run(run())


def test_a_reply_counts_until_its_last_chunk_is_written() -> None:
    async def work(replies: Replies, clock: Clock) -> None:
        first, second = Reader(replies), Reader(replies)
        assert replies.held == 800_000
        with pytest.raises(TryAgain, match=r"replies of 781\.2 KiB are being read, at most 976\.6 KiB may be"):
            Reader(replies)
        assert len(Reader(replies, b"x" * SMALL_BODY).got) == 0, "small ones are never refused"
        await asyncio.sleep(0)
        first.reads.set()
        await first.done
        assert (b"".join(first.got), max(map(len, first.got)), replies.held) == (LARGE, 64 * 2**10, 400_000)
        third = Reader(replies)
        assert replies.held == 800_000
        for each in (second, third):
            each.reads.set()
            await each.done
        assert replies.held == 0

    of_replies(work)


def test_a_reader_that_leaves_counts_no_more() -> None:
    async def work(replies: Replies, clock: Clock) -> None:
        reader = Reader(replies)
        await asyncio.sleep(0)
        reader.done.cancel()
        await asyncio.wait([reader.done])
        assert replies.held == 0

    of_replies(work)


def test_the_slowest_is_dropped_for_a_new_reply() -> None:
    async def work(replies: Replies, clock: Clock) -> None:
        first = Reader(replies)
        clock.now_ms = SLOW_MS - 1
        second = Reader(replies)
        with pytest.raises(TryAgain):
            Reader(replies)
        clock.now_ms += 1
        third = Reader(replies)
        assert (first.dropped, second.dropped, third.dropped, replies.held) == (True, False, False, 800_000)
        await first.done
        assert replies.held == 800_000
        with pytest.raises(TryAgain):
            Reader(replies)

    of_replies(work)


def test_slow_readers_of_a_server_take_bounded_memory_and_others_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_routes, "MOST_REPLIES", 20_000_000)
    monkeypatch.setattr(record_replies, "SLOW_MS", 0)

    async def answered(client: Client) -> bytes:
        client.send(READ)
        status, _, body = await client.reply()
        assert status == 200, body
        return body

    async def work(here: Served) -> None:
        slow = []
        for _ in range(6):
            client = await here.connect(receive_buffer=4_096)
            client.send(READ)
            assert await client.reader.readexactly(12) == b"HTTP/1.1 200"
            slow.append(client)
        body = await answered(await here.connect())
        assert len(msgspec.json.decode(body, type=RecordsReply).records) == 8
        await here.until(lambda: len(here.connections.table) == 2)  # the newest slow one, and the honest one
        for client in slow[:5]:
            assert len(await client.end()) < 8_000_000

    with new_cluster() as cluster:
        cluster.create_topic("orders", config={"retention.ms": -1})
        cluster.append("orders", rows(["x" * 1_000_000] * 8, 0))
        served(member(cluster.connection.follower.store), PATIENT, work)
