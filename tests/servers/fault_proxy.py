"""An HTTP proxy on loopback that stands in front of an S3 server, records every request, and spoils some of them.

    with FaultProxy("http://127.0.0.1:9000") as proxy:        # clients use proxy.url as their endpoint
        proxy.plan(ReplyLost(), lambda request: request.kind == "PUT")       # the next PUT
        proxy.plan(Answer(503), skip=4, times=3)                             # the fifth to seventh request from now
        proxy.roll([ReplyLost(), Answer(500)], every=10, seed=7)             # one in ten, by seeded dice
        proxy.delay_ms = 30                                                  # every request waits first
        proxy.counts()                                                       # Counter({"PUT": 3, "GET": 2})

Requests go on byte for byte (but for `StripHeaders`), with the Host header that the client signed. Each connection
of a client has one to the server, so that a cut concerns nobody else. Plans are asked in order; a fault ends that.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from urllib.parse import urlsplit

from tests.servers.fault_proxy_rules import (
    Answer,
    Dice,
    Fault,
    HalfSentBody,
    Hang,
    Plan,
    ReplyLost,
    Request,
    ResetAfterBody,
    ResetBeforeBody,
    StripHeaders,
    TruncatedResponse,
    When,
    error_body,
)
from tests.servers.http_framing import HEAD_LIMIT_BYTES, Head, pieces, read_head, request_length, response_body

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REASONS = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 409: "Conflict", 412: "Precondition Failed"}
CLOSING_S = 10
KEPT_S = 1.0  # a server keeps a connection longer than that: no request runs into its end
LAST_PIECE_S = 0.2  # for the last piece of a body to be written that the server has answered already


class FaultProxy:
    """Runs in a thread with an event loop of its own, from the start of the `with` block to its end.

    `upstream` may be set to another address at any time: a server that was started again has another port.
    All methods may be called from any thread.
    """

    def __init__(self, upstream: str, delay_ms: float = 0) -> None:
        self.upstream = upstream
        self.delay_ms = delay_ms
        self.port = 0
        self._requests: list[Request] = []
        self._rules: list[Plan | Dice] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: dict[socket.socket, asyncio.Task[None]] = {}
        self._ended = asyncio.Event()

    # ---- life -----------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address that clients use as their endpoint."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FaultProxy:
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = listener.getsockname()[1]
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listener, ready)), name="fault-proxy", daemon=True
        )
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all connections, also those that hang, and the thread. Legal twice."""
        if self._thread is None or self._loop is None or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(CLOSING_S)
        if self._thread.is_alive():
            raise AssertionError(f"the fault proxy at {self.url} did not end in {CLOSING_S} s")

    async def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept, listener)
        ready.set()
        await self._ended.wait()
        self._loop.remove_reader(listener)
        listener.close()
        for task in self._clients.values():
            task.cancel()
        await asyncio.gather(*self._clients.values(), return_exceptions=True)
        for client in self._clients:  # of a task that was cancelled before its first step
            if client.fileno() >= 0:
                reset(client)
                client.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # it left while it waited
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._clients[client] = asyncio.create_task(self._serve_client(client))

    async def _serve_client(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client, limit=HEAD_LIMIT_BYTES)
        try:
            await _Client(self, reader, writer).serve()
            await closed(writer)
        except ConnectionError:
            pass  # the client left
        finally:
            cut(writer)  # nothing, where it is closed already
            del self._clients[client]

    # ---- what it saw ----------------------------------------------------------------------------

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests since the start or the last `forget`, in order of arrival."""
        with self._lock:
            return tuple(self._requests)

    def counts(self) -> Counter[str]:
        """How many requests of each billed class there were: PUT, GET, HEAD, LIST, DELETE, POST."""
        return Counter(each.billed_as for each in self.requests)

    def forget(self) -> None:
        """Begin the record anew: the next request has number 1."""
        with self._lock:
            self._requests = []

    def _record(self, head: Head) -> Request:
        method, target, _ = head.start.split(" ", 2)
        split = urlsplit(target)
        with self._lock:
            request = Request(len(self._requests) + 1, method, split.path, split.query, head.headers)
            for rule in self._rules:
                request.fault = rule.fault_for(request)
                if request.fault is not None:
                    break
            self._requests.append(request)
        return request

    # ---- what it does ---------------------------------------------------------------------------

    def plan(self, fault: Fault, when: When | None = None, *, skip: int = 0, times: int | None = 1) -> None:
        """Spoil the next `times` requests that fit `when` (None: for ever), after the first `skip` of them."""
        with self._lock:
            self._rules.append(Plan(fault, when, skip, times))

    def roll(self, faults: Sequence[Fault], every: int, seed: int, when: When | None = None) -> None:
        """Spoil one in `every` requests that fit `when` by one of `faults`, by dice."""
        with self._lock:
            self._rules.append(Dice(tuple(faults), every, seed, when))

    def clear(self) -> None:
        """Drop all plans and dice. Requests that hang go on hanging."""
        with self._lock:
            self._rules = []


@dataclass(frozen=True, slots=True)
class _Upstream:
    """A connection to the server."""

    address: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    used_at_s: float


class _Client:
    """One connection from a client: its requests, one after the other."""

    def __init__(self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.reader = reader
        self.writer = writer
        self.upstream: _Upstream | None = None  # kept from the last request

    async def serve(self) -> None:
        try:
            while (head := await read_head(self.reader)) is not None:
                request = self.proxy._record(head)
                if self.proxy.delay_ms:
                    await asyncio.sleep(self.proxy.delay_ms / 1000)
                if not await self._handle(head, request) or asks_to_close(head):
                    return
        finally:
            if self.upstream is not None:
                self.upstream.writer.transport.abort()

    async def connect(self) -> _Upstream:
        """A connection to the server: the one of the last request, if the server can't have meant to close it yet."""
        kept, self.upstream = self.upstream, None
        if kept is not None:
            now_s = asyncio.get_running_loop().time()
            if (
                kept.address == self.proxy.upstream
                and now_s - kept.used_at_s < KEPT_S
                and not kept.reader.at_eof()
                and not kept.writer.is_closing()
            ):
                return kept
            await closed(kept.writer)
        return await connect(self.proxy.upstream)

    async def _handle(self, head: Head, request: Request) -> bool:
        """Whether the connection goes on."""
        match request.fault:
            case ResetBeforeBody():
                return cut(self.writer)
            case ResetAfterBody():
                await self._whole_body(head)
                return cut(self.writer)
            case HalfSentBody():
                await self._send_half(head)
                return cut(self.writer)
            case Hang(applied=False) as fault:
                if fault.takes_body:
                    await self._whole_body(head)
                return await self._hang()
            case Answer(applied=False) as fault:
                await self._whole_body(head)
                return await self._answer(fault, request)
            case StripHeaders() as fault:
                return await _Exchange(self, head.without(*fault.names), request).run()
            case _:
                return await _Exchange(self, head, request).run()

    async def _whole_body(self, head: Head) -> bytes:
        if expects_continue(head):
            self.writer.write(CONTINUE)
        return b"".join([piece async for piece in pieces(self.reader, request_length(head.headers))])

    async def _send_half(self, head: Head) -> None:
        body = await self._whole_body(head)
        sent = head.encode() + body[: len(body) // 2] if body else head.start.encode()[:-4]
        upstream = await connect(self.proxy.upstream)
        upstream.writer.write(sent)
        await closed(upstream.writer)

    async def _hang(self) -> bool:
        while await self.reader.read(1 << 16):
            pass
        return False

    async def _answer(self, fault: Answer, request: Request) -> bool:
        body = error_body(fault, request)
        reason = REASONS.get(fault.status, "Error")
        head = (
            f"HTTP/1.1 {fault.status} {reason}\r\nContent-Type: application/xml\r\n"
            f"x-amz-request-id: fault{request.number}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        request.status = fault.status
        self.writer.write(head.encode() + (b"" if request.method == "HEAD" else body))
        await self.writer.drain()
        return True


class _Exchange:
    """One request that goes to the server, and its answer."""

    def __init__(self, client: _Client, head: Head, request: Request) -> None:
        self.client = client
        self.head = head
        self.request = request
        self.invited = not expects_continue(head)  # whether the client sends its body
        self.reusable = False  # whether the connection to the server goes on after this

    async def run(self) -> bool:
        """Whether the client's connection goes on."""
        try:
            upstream = await self.client.connect()
        except OSError:
            return cut(self.client.writer)  # no server: to the client that is a connection that broke
        sending = asyncio.ensure_future(self._send(upstream.writer))
        goes_on = False
        try:
            goes_on = await self._receive(upstream.reader)
            if goes_on and not sending.done() and self.invited:
                await asyncio.wait({sending}, timeout=LAST_PIECE_S)
            goes_on = goes_on and sending.done()  # an answer before the body's end leaves the rest of it unread
            return goes_on
        except ConnectionError:
            return cut(self.client.writer)
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await sending
            if goes_on and self.reusable:
                self.client.upstream = replace(upstream, used_at_s=asyncio.get_running_loop().time())
            else:
                await closed(upstream.writer)

    async def _send(self, upstream: asyncio.StreamWriter) -> None:
        try:
            upstream.write(self.head.encode())
            async for piece in pieces(self.client.reader, request_length(self.head.headers)):
                upstream.write(piece)
                await upstream.drain()
        except ConnectionError:
            cut(upstream)  # the client left inside its body: the server must not wait for the rest
            raise

    async def _receive(self, upstream: asyncio.StreamReader) -> bool:
        while True:
            head = await read_head(upstream)
            if head is None:
                raise ConnectionResetError("the server closed the connection without an answer")
            if head.status >= 200:
                break
            self.client.writer.write(head.encode())
            self.invited = True
        self.request.upstream_status = head.status
        body, framed = response_body(upstream, head, self.request.method)
        self.reusable = framed and not asks_to_close(head) and not asks_to_close(self.head)
        match self.request.fault:
            case ReplyLost() as fault:
                await drained(body)
                return cut(self.client.writer) if fault.reset else False
            case Hang():
                await drained(body)
                return await self.client._hang()
            case Answer() as fault:
                await drained(body)
                return await self.client._answer(fault, self.request)
            case TruncatedResponse():
                return await self._cut(head, body)
        self.request.status = head.status
        self.client.writer.write(head.encode())
        async for piece in body:
            self.client.writer.write(piece)
            await self.client.writer.drain()
        await self.client.writer.drain()
        return self.reusable

    async def _cut(self, head: Head, body: AsyncIterator[bytes]) -> bool:
        whole = await drained(body)
        if whole:
            self.request.status = head.status
            sent = head.encode() + whole[: len(whole) // 2]
        else:
            sent = head.start.encode()[:8]  # within the headers, some clients would take the end for theirs
        self.client.writer.write(sent)
        await self.client.writer.drain()
        return False


def asks_to_close(head: Head) -> bool:
    return head.headers.get("connection", "").lower() == "close"


def expects_continue(head: Head) -> bool:
    return head.headers.get("expect", "").lower() == "100-continue"


async def connect(address: str) -> _Upstream:
    split = urlsplit(address)
    reader, writer = await asyncio.open_connection(split.hostname, split.port, limit=HEAD_LIMIT_BYTES)
    return _Upstream(address, reader, writer, asyncio.get_running_loop().time())


async def drained(body: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in body])


def reset(connection: socket.socket) -> None:
    """Let closing be a reset: the other side sees no orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def cut(writer: asyncio.StreamWriter) -> bool:
    """Reset a connection, whatever waits to be sent. False: it does not go on."""
    if not writer.is_closing():
        reset(writer.get_extra_info("socket"))
    writer.transport.abort()
    return False


async def closed(writer: asyncio.StreamWriter) -> None:
    """Send what is left, then close."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
