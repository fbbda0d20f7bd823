"""A proxy on loopback that stands in front of a name node, records every call of Hadoop's RPC, and spoils some of them.

    with HdfsProxy(hadoop.url) as proxy:          # clients use proxy.url
        proxy.spoil(ReplyLost(), at=3)            # the fourth call since the last `forget`
        proxy.spoil(Hang(), method="rename2", times=None)               # the next rename, and all that follows it
        proxy.calls                               # (#1 create /a, #2 addBlock /a, …)

Frames go on byte for byte. Each connection of a client has one to the name node, so that a cut concerns nobody else;
a connection that hangs does so for all calls on it, as that of a host that vanished does. Of a fault's words in
`fault_proxy_rules.py` the body is the frame of a call. Data nodes are not behind it: the name node names their own
addresses.

On the wire (Hadoop 2 and later, RPC version 9): "hrpc", version, service class, authentication; then frames of four
bytes length and delimited protobuf messages, to the name node RpcRequestHeaderProto, RequestHeaderProto and the
request, back RpcResponseHeaderProto and the answer. Calls with a negative id set up the connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit

from tests.servers.fault_proxy import closed, cut
from tests.servers.fault_proxy_rules import Fault, HalfSentBody, Hang, ReplyLost, ResetAfterBody, TruncatedResponse

PREAMBLE_BYTES = 7
BY_A_TIMER = {"renewLease"}  # calls that no caller waits for: they pass, uncounted
CLOSING_S = 10

Protobuf = dict[int, int | bytes]  # the last of each field, by its number


@dataclass(slots=True)
class Call:
    """One call as it came in, and what became of it. `number` counts from 1 in order of arrival.

    `answer` is what the name node said: "ok", or the class of its error; None where it said nothing. The client was
    told so unless `fault` says otherwise.
    """

    number: int
    call_id: int
    method: str
    path: str
    fault: Fault | None = None
    answer: str | None = None

    def __str__(self) -> str:
        return f"#{self.number} {self.method} {self.path} -> {self.answer}"


@dataclass(slots=True)
class _Rule:
    fault: Fault
    at: int
    times: int | None
    method: str | None

    def fault_for(self, call: Call) -> Fault | None:
        if self.times == 0 or call.number <= self.at or self.method not in (None, call.method):
            return None
        self.method = None
        if self.times is not None:
            self.times -= 1
        return self.fault


class HdfsProxy:
    """Runs in a thread with an event loop of its own, from the start of the `with` block to its end.

    All methods may be called from any thread.
    """

    def __init__(self, upstream: str) -> None:
        at = urlsplit(upstream)
        self.upstream = (at.hostname, at.port)
        self.port = 0
        self._calls: list[Call] = []
        self._rule: _Rule | None = None
        self._lock = threading.Lock()
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # ---- life -----------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The root of the file system behind it, without a slash at the end."""
        return f"hdfs://127.0.0.1:{self.port}"

    def __enter__(self) -> HdfsProxy:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), name="hdfs-proxy", daemon=True)
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
            raise AssertionError(f"the proxy at {self.url} did not end in {CLOSING_S} s")

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        connections: dict[asyncio.Future[None], asyncio.StreamWriter] = {}

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(_Connection(self, reader, writer).serve())
            connections[task] = writer
            # Also of one that is cancelled before its first step. Nothing, where it is closed already.
            task.add_done_callback(lambda done: cut(connections.pop(done)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._ended.wait()
        server.close()
        for task in [*connections]:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    # ---- what it saw and does ---------------------------------------------------------------------

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls since the start or the last `forget`, in order of arrival."""
        with self._lock:
            return tuple(self._calls)

    def forget(self) -> None:
        """Begin the record anew: the next call has number 1."""
        with self._lock:
            self._calls = []

    def spoil(self, fault: Fault, at: int = 0, times: int | None = 1, method: str | None = None) -> None:
        """Spoil the `times` calls (None: all) after the first `at` of the record, from the next `method` on if given.

        In the place of an earlier rule.
        """
        with self._lock:
            self._rule = _Rule(fault, at, times, method)

    def clear(self) -> None:
        """Spoil no more calls. Connections that hang go on hanging."""
        with self._lock:
            self._rule = None

    def _record(self, frame: bytes) -> Call | None:
        """The call in a frame, or None if it is none that counts."""
        call_id, method, path = read_request(frame)
        if call_id < 0 or method in BY_A_TIMER:
            return None
        with self._lock:
            call = Call(len(self._calls) + 1, call_id, method, path)
            call.fault = self._rule.fault_for(call) if self._rule else None
            self._calls.append(call)
        return call


class _Connection:
    """One connection of a client, and its own to the name node."""

    def __init__(self, proxy: HdfsProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._calls: dict[int, Call] = {}  # that the name node has, by id

    async def serve(self) -> None:
        try:
            reader, writer = await asyncio.open_connection(*self._proxy.upstream)
        except OSError:
            return
        directions = [asyncio.ensure_future(self._requests(writer)), asyncio.ensure_future(self._answers(reader))]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.transport.abort()  # before the wait, which may be cancelled
            for each in directions:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _requests(self, server: asyncio.StreamWriter) -> None:
        """To the name node, until one side leaves or a fault ends it."""
        server.write(await self._reader.readexactly(PREAMBLE_BYTES))
        while True:
            frame = await read_frame(self._reader)
            call = self._proxy._record(frame)
            match call and call.fault:
                case ResetAfterBody():
                    return
                case HalfSentBody():
                    server.write(frame[: len(frame) // 2])
                    await closed(server)
                    return
                case Hang(applied=False):
                    await asyncio.Event().wait()  # until the name node closes the connection, or the proxy ends
            if call is not None:
                self._calls[call.call_id] = call
            server.write(frame)
            await server.drain()

    async def _answers(self, server: asyncio.StreamReader) -> None:
        """To the client, until one side leaves or a fault ends it."""
        while True:
            frame = await read_frame(server)
            call_id, answer = read_answer(frame)
            call = self._calls.pop(call_id, None)
            if call is not None:
                call.answer = answer
            match call and call.fault:
                case ReplyLost() as fault:
                    if not fault.reset:
                        await closed(self._writer)
                    return
                case TruncatedResponse():
                    self._writer.write(frame[: len(frame) // 2])
                    await closed(self._writer)
                    return
                case Hang():
                    await asyncio.Event().wait()
            self._writer.write(frame)
            await self._writer.drain()


# ---- the wire -------------------------------------------------------------------------------------


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """A frame with its length in front. Raises IncompleteReadError at the end of the connection."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length, "big"))


def read_request(frame: bytes) -> tuple[int, str, str]:
    """(call id, method, path) of a call; the latter two are empty for what sets up a connection.

    The path is the first field of the request in most of ClientProtocol; in rename2 the second one, the new name.
    """
    messages = _delimited(frame[4:])
    zigzag = _fields(next(messages)).get(3, 0)
    assert isinstance(zigzag, int)
    call_id = (zigzag >> 1) ^ -(zigzag & 1)
    if call_id < 0:
        return call_id, "", ""
    method = _text(_fields(next(messages)), 1)
    return call_id, method, _text(_fields(next(messages, b"")), 2 if method == "rename2" else 1)


def read_answer(frame: bytes) -> tuple[int, str]:
    """(call id, "ok" or the class of the error) of an answer."""
    header = _fields(next(_delimited(frame[4:])))
    call_id = header.get(1, 0)
    assert isinstance(call_id, int)
    return call_id, _text(header, 4).rpartition(".")[2] if header.get(2, 0) else "ok"


def _delimited(rest: bytes) -> Iterator[bytes]:
    while rest:
        length, start = _varint(rest, 0)
        yield rest[start : start + length]
        rest = rest[start + length :]


def _fields(message: bytes) -> Protobuf:
    found: Protobuf = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                found[tag >> 3], at = _varint(message, at)
            case 2:
                length, at = _varint(message, at)
                found[tag >> 3], at = message[at : at + length], at + length
            case 1:
                at += 8
            case 5:
                at += 4
            case wire_type:
                raise ValueError(f"wanted a field of protobuf, found wire type {wire_type}")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _text(message: Protobuf, field: int) -> str:
    value = message.get(field)
    return value.decode(errors="replace") if isinstance(value, bytes) else ""
