"""The connections of a coordinator: bounded in number, and in the time and memory that a slow one may take.

uvicorn waits for a request without a limit, and accepts any number of connections. Here

- a connection that does not complete its TLS handshake, sends no request, or not all of it, or does not read its reply,
  is dropped after a time (`ConnectionLimits`);
- when the number of connections is at its limit, a new one replaces one that is idle, or that is slow to send its
  request; if there is none, a few are refused with 503, Retry-After and an error in the usual format, and the rest
  wait to be accepted (`acceptor.py`);
- a connection's requests are answered one after the other, in order, and only a few of them may wait.

If a connection is dropped before an answer, the request may have been applied: clients send the command again under the
same id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sparklog.coordinator.http.connection_table import Admission, ConnectionLimits, ConnectionTable, State
from sparklog.coordinator.http.record_replies import DROP
from sparklog.core.describe.readable import amount
from sparklog.core.errors import InvalidInput, RequestTimedOut, SparklogError, TryAgain
from sparklog.host.open_files import most_open_files
from sparklog.wire.error_messages import error_reply
from sparklog.wire.messages import CONTENT_TYPE

RESERVED_FILES = 4_096  # for the metadata store, and for accepted connections that are about to be dropped
RETRY_AFTER_S = 1
REPORT_EVERY_S = 60.0
_log = logging.getLogger("sparklog.coordinator")


def limits_here() -> ConnectionLimits:
    """The default limits, but fewer connections if this process may not open that many files.

    The process's limit of open files is first raised as far as possible.
    """
    usual, files = ConnectionLimits(), most_open_files()
    if files is None:
        return usual
    connections = min(usual.connections, max(files // 2, files - RESERVED_FILES))
    few = connections // 8
    lingering, refusing = min(usual.lingering, few), min(usual.refusing, few)
    return replace(usual, connections=connections, lingering=lingering, refusing=refusing)


class Connections:
    """All connections of a server; `protocol` creates them. To be used in one event loop."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.table: ConnectionTable[ServerConnection] = ConnectionTable(limits)
        self.refused = 0
        self._sweeping: asyncio.TimerHandle | None = None
        self._reported_s: dict[str, float] = {}  # by text: the time when it was last logged

    @property
    def protocol(self) -> Callable[..., ServerConnection]:
        """A factory that creates a `ServerConnection`; it is called for each accepted connection."""
        return partial(ServerConnection, connections=self)

    def admission(self, now_s: float) -> Admission[ServerConnection] | None:
        """The way to accept one more connection; None if it has to wait. Changes nothing."""
        if self.table.is_full:
            self._report(
                now_s,
                "%d connections are open, which is the limit: idle ones are closed for new ones, and while there are "
                "none, new ones are refused (%d so far)",
                len(self.table),
                self.refused,
            )
        return self.table.admission(now_s)

    def enter(
        self, connection: ServerConnection, admission: Admission[ServerConnection], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Count an accepted connection, after dropping the one whose place it takes."""
        if admission.victim is not None:
            admission.victim.drop()
        self.refused += admission.state is State.REFUSED
        self.table.enter(connection, admission.state, loop.time())
        self.watch(loop)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to call `sweep` every `ConnectionLimits.sweep_s` seconds, until no connection is open."""
        if self._sweeping is None:
            self._sweeping = loop.call_later(self.limits.sweep_s, self._sweep_again, loop)

    def sweep(self, now_s: float) -> None:
        """End each connection that has been in its present `State` for longer than allowed.

        If it has made progress, it gets more time instead (`ServerConnection.overdue`).
        """
        for connection, state in self.table.overdue(now_s):
            connection.overdue(state)

    def _sweep_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweeping = None
        self.sweep(loop.time())
        if len(self.table):
            self.watch(loop)

    def report_failure(self, error: OSError, now_s: float) -> None:
        """Log that a connection can't be accepted, at most once in REPORT_EVERY_S."""
        self._report(now_s, "no connection can be accepted: %s; trying again", error.strerror)

    def _report(self, now_s: float, text: str, *values: object) -> None:
        """Log a warning, unless the same `text` was logged in the last REPORT_EVERY_S seconds."""
        last_s = self._reported_s.get(text)
        if last_s is None or now_s >= last_s + REPORT_EVERY_S:
            self._reported_s[text] = now_s
            _log.warning(text, *values)


class ServerConnection(HttpToolsProtocol):
    """One connection of a server, with its place in the table of `Connections`."""

    def __init__(self, *arguments: Any, connections: Connections, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = connections.limits
        self._table = connections.table
        self._in_head = self._in_body = False  # of the request that is being received
        self._received = 0  # bytes of its head, or of its body since its time began
        self._left = 0  # bytes of a reply that the client had not read when its time began
        self._ended = False  # further input is ignored
        self.handshake: asyncio.Task[object] | None = None  # until its TLS handshake is complete

    # ---- events of the transport ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        state = self._table.state(self)
        if state is None:  # dropped at this very moment
            self.drop()
        elif state is State.REFUSED:
            self._end(
                503,
                TryAgain(
                    f"{self._limits.connections} connections are open, which is the limit, and none of them is idle: "
                    "try again later"
                ),
            )
        else:
            self._table.enter(self, State.SILENT, self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        if self._in_head or self._in_body:
            self._received += len(data)
        super().data_received(data)
        if self._in_head and self._received > self._limits.head_bytes:
            self._refuse(431, InvalidInput(f"the head of a request has at most {amount(self._limits.head_bytes)}"))
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look()

    # ---- events of the parser and the application ------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[DROP] = self.drop  # type: ignore[typeddict-unknown-key]
        self._in_head = True
        self._received = 0

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self._limits.pipelined:
            raise _TooManyRequests
        super().on_headers_complete()
        self._in_head, self._in_body = False, True
        self._received = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_body = False

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete:  # the body was refused before it was read whole
            self._linger()
        self._look()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, InvalidInput("wanted a request of HTTP/1.1, found something else"))

    # ---- ending a connection --------------------------------------------------------------------

    def overdue(self, state: State) -> None:
        """End a connection whose time in this state is over, unless it has made progress: then extend the time.

        Progress means `ConnectionLimits.body_bytes` of a body received, or of a reply read by the client.
        """
        if state is State.RECEIVING:
            if self._in_body and self._received >= self._limits.body_bytes:
                self._received = 0
                self._table.enter(self, state, self.loop.time())
                return
            self._refuse(408, RequestTimedOut(f"the request was not complete after {self._limits.request_s:g} s"))
            return
        if state is State.STUCK:
            left = self.transport.get_write_buffer_size()
            if left <= self._left - self._limits.body_bytes:
                self._left = left
                self._table.enter(self, state, self.loop.time())
                return
        self.drop()

    def drop(self) -> None:
        """Close the connection at once, even if a request is still being handled."""
        self._ended = True
        self._table.leave(self)
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    def _look(self) -> None:
        """Find out the present state of the connection, and note it in the table."""
        before = self._table.state(self)
        if before is None or before is State.LINGERING or self.transport.is_closing():
            return
        answered = self.cycle is None or self.cycle.response_complete
        if self.flow.write_paused:
            state = State.STUCK
            self._left = self.transport.get_write_buffer_size()
        elif not answered and not (self._in_body and not self.pipeline):
            state = State.ANSWERING
        elif self._in_head or self._in_body:
            state = State.RECEIVING
        else:
            state = State.SILENT if self.cycle is None else State.IDLE
        if state is not before:
            self._table.enter(self, state, self.loop.time())

    def _refuse(self, status: int, error: SparklogError) -> None:
        """Answer the request that is being received with an error, and end the connection.

        If an earlier request has no complete answer yet, or the answer to this request has begun, the client would take
        the error for a part of that answer. In that case, drop the connection without an error.
        """
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        if self.pipeline or (is_answering and (cycle.response_started or not self._in_body)):
            self.drop()
            return
        if is_answering:  # the application waits for the rest of the body
            cycle.disconnected = True
            cycle.message_event.set()
        self._end(status, error)

    def _end(self, status: int, error: SparklogError) -> None:
        """Send an error as the last answer of this connection."""
        body = msgspec.msgpack.encode(error_reply(error))
        head = (
            f"content-type: {CONTENT_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
            f"retry-after: {RETRY_AFTER_S}\r\n\r\n"
        )
        if not self.transport.is_closing():
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self._linger()

    def _linger(self) -> None:
        """Discard input for a moment before the connection is closed: closing at once could destroy the last answer.

        Closes at once if `ConnectionLimits.lingering` connections do this already.
        """
        self._ended = True
        self._unset_keepalive_if_required()
        if self._table.count(State.LINGERING) >= self._limits.lingering or self.transport.is_closing():
            self.drop()
        else:
            self.flow.resume_reading()
            self._table.enter(self, State.LINGERING, self.loop.time())


class _TooManyRequests(Exception):
    """Raised if a request arrives while `ConnectionLimits.pipelined` requests already wait on its connection."""
