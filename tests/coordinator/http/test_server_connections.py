"""Slow, hostile and vanishing clients: none of them stops the others, and what they may take is bounded."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from pathlib import Path

import msgspec
import pytest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sparklog.coordinator import run
from sparklog.coordinator.access.renewed_files import Certificate
from sparklog.coordinator.http import acceptor, exchange
from sparklog.coordinator.http.connection_table import ConnectionLimits, State
from sparklog.coordinator.http.server_connections import Connections
from sparklog.core.errors import Landed
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.messages import CLUSTER, SUBMIT
from tests.chain.chain_kit import Member, member, new_chain
from tests.coordinator.http_server import Client, Served, committed, head, served
from tests.servers.certificates import Authority

NEVER_S = 3_600.0
PATIENT = ConnectionLimits(sweep_s=NEVER_S)  # time passes only when a test says so
LATER_S = PATIENT.request_s + 1
LARGE = b"x" * 2**20


@pytest.fixture
def chain() -> Member:
    return new_chain()


def loris(part: int) -> bytes:
    """The beginning of a request: of its head, or all but the end of its body."""
    whole = head("POST", SUBMIT, "content-length: 100") + b"x" * 99
    return whole[: 30 if part == 0 else len(whole)]


# ---- slow ones ------------------------------------------------------------------------------------------


# M: N-04
@pytest.mark.parametrize("part", [0, 1])
def test_a_request_that_is_not_complete_in_time_is_refused_and_others_go_on(chain: Member, part: int) -> None:
    async def work(here: Served) -> None:
        honest = await here.connect()
        slow = [await here.connect() for _ in range(20)]
        for byte in loris(part)[:-1]:
            for client in slow:
                client.send(bytes([byte]))
            await asyncio.sleep(0)
        await here.commit(honest, 3)
        await here.until(lambda: here.connections.table.count(State.RECEIVING) == 20)
        here.later(LATER_S)
        for client in slow:
            assert await client.error() == (408, "REQUEST_TIMED_OUT")
        await here.commit(honest)
        here.later(PATIENT.linger_s + 1)
        for client in slow:
            assert await client.end() == b""
        await here.commit(honest)

    served(chain, PATIENT, work)
    assert len(member(chain.store.inner).uploads()) == 5


def test_a_large_body_has_to_make_progress(chain: Member) -> None:
    async def work(here: Served) -> None:
        slow = await here.connect()
        slow.send(head("POST", SUBMIT, f"content-length: {10 * len(LARGE)}"))
        for count in range(1, 4):
            slow.send(LARGE)
            held = count * len(LARGE) - exchange.SMALL_BODY
            await here.until(lambda held=held: exchange._bodies.held == held)  # type: ignore[misc]
            here.later(LATER_S)
            assert here.connections.table.count(State.RECEIVING) == 1
        slow.send(b"x")
        await here.until(lambda: exchange._bodies.held == held + 1)
        here.later(LATER_S)
        assert await slow.error() == (408, "REQUEST_TIMED_OUT")

    served(chain, PATIENT, work)


def test_one_that_never_sends_a_byte_is_dropped(chain: Member) -> None:
    async def work(here: Served) -> None:
        silent = [await here.connect() for _ in range(20)]
        for client in silent:
            assert await client.end() == b""
        assert len(here.connections.table) == 0

    served(chain, ConnectionLimits(request_s=0.05, sweep_s=0.02), work)


# M: N-04
def test_one_that_does_not_read_its_reply_is_dropped_and_others_go_on(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def large(request: object) -> Response:
        return Response(LARGE * 32)

    monkeypatch.setattr(run, "app_of", lambda service, *_: _with_route(service, Route("/large", large)))

    async def work(here: Served) -> None:
        honest, deaf, slow = await here.connect(), await here.connect(4_096), await here.connect(4_096)
        table = here.connections.table
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for client in (deaf, slow):
            client.send(head("GET", "/large"))
        await here.until(lambda: table.count(State.STUCK) == 2)
        await here.commit(honest, 3)
        await slow.reader.readexactly(8 * len(LARGE))
        here.later(LATER_S)
        await here.until(lambda: len(table) == 2)
        await slow.reader.readexactly(24 * len(LARGE))  # that one only takes its time
        await here.commit(honest, 3)

    served(chain, PATIENT, work)


def _with_route(service: run.Service, route: Route) -> ASGIApp:
    """The application with a further route, past its gate."""
    app = _app_of(service)

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        await (route.app if scope.get("path") == route.path else app)(scope, receive, send)

    return either


_app_of = run.app_of


# M: N-04
def test_one_that_vanishes_leaves_nothing_behind(chain: Member) -> None:
    async def work(here: Served) -> None:
        honest = await here.connect()
        for part in (b"", loris(0), loris(1), here.submit_request(), here.submit_request() * 3):
            for _ in range(10):
                client = await here.connect()
                client.send(part)
                await asyncio.sleep(0)
                client.vanish()
        await here.commit(honest, 3)
        await here.until(lambda: len(here.connections.table) == 1 and here.service.control.queued == 0)
        assert exchange._bodies.held == 0

    served(chain, PATIENT, work)


# ---- many -----------------------------------------------------------------------------------------------


# M: N-04
def test_idle_connections_make_room_for_new_ones_the_longest_idle_first(chain: Member) -> None:
    async def work(here: Served) -> None:
        kept = await here.connect()
        await here.commit(kept)
        silent = [await here.connect() for _ in range(9)]
        await here.until(lambda: len(here.connections.table) == 10)
        for number in range(9):
            client = await here.connect()
            await here.commit(client)
            assert await silent[number].end() == b""
            assert len(here.connections.table) == 10
        last = await here.connect()
        await here.commit(last)
        assert await kept.end() == b""  # no silent one is left

    served(chain, ConnectionLimits(connections=10, sweep_s=NEVER_S), work)


def test_half_sent_requests_make_room_too_but_not_at_once(chain: Member) -> None:
    limits = ConnectionLimits(connections=5, sweep_s=NEVER_S, evict_receiving_s=0.05)

    async def work(here: Served) -> None:
        slow = [await here.connect() for _ in range(5)]
        for client in slow:
            client.send(loris(1))
        await here.until(lambda: here.connections.table.count(State.RECEIVING) == 5)
        while True:
            client = await here.connect()
            client.send(here.submit_request())
            status, _, _ = await client.reply()
            if status == 200:
                break
            assert status == 503
        assert await slow[0].end() == b""

    served(chain, limits, work)


# M: N-04
def test_if_all_connections_are_at_work_a_new_one_is_refused_politely(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = asyncio.Event()

    async def waits(request: object) -> Response:
        await release.wait()
        return Response(b"done")

    monkeypatch.setattr(run, "app_of", lambda service, *_: _with_route(service, Route("/waits", waits)))

    async def work(here: Served) -> None:
        busy = [await here.connect() for _ in range(4)]
        for client in busy:
            client.send(head("GET", "/waits"))
        await here.until(lambda: here.connections.table.count(State.ANSWERING) == 4)
        for _ in range(3):
            refused = await here.connect()
            refused.send(here.submit_request())
            status, headers, body = await refused.reply()
            error = msgspec.msgpack.decode(body, type=ErrorReply)
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
            assert (error.code, error.retriable, error.landed) == ("COORDINATOR_NOT_AVAILABLE", True, Landed.NO)
            assert error.message.startswith("4 connections are open, which is the limit")
            refused.writer.close()
        release.set()
        for client in busy:
            assert (await client.reply())[2] == b"done"
        await here.commit(await here.connect())

    served(chain, ConnectionLimits(connections=4, sweep_s=NEVER_S), work)
    assert len(member(chain.store.inner).uploads()) == 1


def test_the_refused_do_not_pile_up(chain: Member) -> None:
    async def work(here: Served) -> None:
        clients = [await here.connect() for _ in range(6)]
        for client in clients:
            client.send(b"\x00\x00\r\n\r\n")
        await here.until(lambda: all(client.reader.at_eof() or client.reader._buffer for client in clients))  # type: ignore[attr-defined]
        assert here.connections.table.count(State.LINGERING) <= 2

    served(chain, ConnectionLimits(lingering=2, sweep_s=NEVER_S), work)


# ---- before the handshake of TLS ------------------------------------------------------------------------


class Secured:
    """The certificate of a server, and how its clients check it."""

    def __init__(self, folder: Path) -> None:
        ca = Authority(folder)
        issued = ca.issue()
        certificate = Certificate(issued.certificate, issued.key, lambda event, text: None)
        self.protection = run.Protection(certificate)
        self.trust = ssl.create_default_context(cafile=ca.file)


# M: N-04
def test_connections_without_a_handshake_make_room_for_new_ones(chain: Member, tmp_path: Path) -> None:
    secured = Secured(tmp_path)

    async def work(here: Served) -> None:
        silent = [await here.connect() for _ in range(300)]
        for client in silent[::2]:
            client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # the beginning of a handshake
        table = here.connections.table
        await here.until(lambda: table.count(State.HANDSHAKE) == 10 and silent[289].reader.at_eof())
        await here.commit(await here.connect(tls=secured.trust), 3)
        assert (len(table), table.count(State.HANDSHAKE)) == (10, 9)

    served(chain, ConnectionLimits(connections=10, sweep_s=NEVER_S), work, secured.protection)
    assert len(member(chain.store.inner).uploads()) == 3


# M: N-04
def test_a_handshake_that_is_not_complete_in_time_is_ended(chain: Member, tmp_path: Path) -> None:
    secured = Secured(tmp_path)

    async def work(here: Served) -> None:
        honest = await here.connect(tls=secured.trust)
        slow = [await here.connect() for _ in range(20)]
        table = here.connections.table
        await here.until(lambda: table.count(State.HANDSHAKE) == 20)
        for byte in b"\x16\x03\x01\x02\x00":
            for client in slow:
                client.send(bytes([byte]))
            await asyncio.sleep(0)
        await here.commit(honest)
        here.later(PATIENT.request_s - 1)
        assert table.count(State.HANDSHAKE) == 20
        here.later(LATER_S)
        assert table.count(State.HANDSHAKE) == 0, "asyncio alone would wait for a minute"
        for client in slow:
            assert await client.end() == b""
        assert len(table) == 1
        await here.commit(honest)

    served(chain, PATIENT, work, secured.protection)


def test_one_that_vanishes_in_its_handshake_leaves_nothing_behind(
    chain: Member, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secured = Secured(tmp_path)

    async def work(here: Served) -> None:
        for part in (b"", b"\x16\x03\x01", head("GET", CLUSTER), b"\xff" * 5_000):
            for _ in range(10):
                client = await here.connect()
                client.send(part)
                await asyncio.sleep(0)
                client.vanish()
        honest = await here.connect(tls=secured.trust)
        await here.commit(honest)
        await here.until(lambda: len(here.connections.table) == 1)

    served(chain, PATIENT, work, secured.protection)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_beyond_the_limit_connections_wait_to_be_accepted(
    chain: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two are at work, which is the limit; one more is accepted to be refused; the others are not accepted at all."""
    release = asyncio.Event()

    async def waits(request: object) -> Response:
        await release.wait()
        return Response(b"done")

    monkeypatch.setattr(run, "app_of", lambda service, *_: _with_route(service, Route("/waits", waits)))
    secured = Secured(tmp_path)

    async def work(here: Served) -> None:
        table = here.connections.table
        busy = [await here.connect(tls=secured.trust) for _ in range(2)]
        for client in busy:
            client.send(head("GET", "/waits"))
        await here.until(lambda: table.count(State.ANSWERING) == 2)
        refused = [await here.connect() for _ in range(50)]
        await here.until(lambda: table.count(State.REFUSED) == 1)
        patient = asyncio.create_task(here.connect(tls=secured.trust))
        for _ in range(100):
            await asyncio.sleep(0.001)
            assert len(table) == 3
        release.set()
        for client in busy:
            assert (await client.reply())[2] == b"done"
        for client in refused:
            client.vanish()
        await here.commit(await patient)

    served(chain, ConnectionLimits(connections=2, refusing=1, sweep_s=NEVER_S), work, secured.protection)


def test_over_tls_a_refusal_is_polite_too(chain: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = asyncio.Event()

    async def waits(request: object) -> Response:
        await release.wait()
        return Response(b"done")

    monkeypatch.setattr(run, "app_of", lambda service, *_: _with_route(service, Route("/waits", waits)))
    secured = Secured(tmp_path)

    async def work(here: Served) -> None:
        busy = await here.connect(tls=secured.trust)
        busy.send(head("GET", "/waits"))
        await here.until(lambda: here.connections.table.count(State.ANSWERING) == 1)
        refused = await here.connect(tls=secured.trust)
        assert await refused.error() == (503, "COORDINATOR_NOT_AVAILABLE")
        release.set()
        assert (await busy.reply())[2] == b"done"

    served(chain, ConnectionLimits(connections=1, sweep_s=NEVER_S), work, secured.protection)


def test_a_log_without_a_reader_all_night_is_not_filled_with_one_failure(caplog: pytest.LogCaptureFixture) -> None:
    connections = Connections(PATIENT)
    error = OSError(errno.EMFILE, "Too many open files")
    for now_s in (5.0, 5.1, 64.9, 65.0, 65.1):
        connections.report_failure(error, now_s)
    assert [record.getMessage() for record in caplog.records] == [
        "no connection can be accepted: Too many open files; trying again"
    ] * 2


def test_if_no_file_can_be_opened_the_loop_does_not_spin(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener stays readable. It is left alone until `RETRY_S` is over, here for ever; then all is as before."""
    failed: list[socket.socket] = []
    accept = socket.socket.accept
    monkeypatch.setattr(acceptor, "RETRY_S", NEVER_S)

    def fails(listener: socket.socket) -> tuple[socket.socket, object]:
        failed.append(listener)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket.socket, "accept", fails)

    async def work(here: Served) -> None:
        client = await here.connect()
        client.send(here.submit_request())
        await here.until(lambda: bool(failed))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(failed) == 1
        monkeypatch.setattr(socket.socket, "accept", accept)
        (server,) = here.server.servers
        assert isinstance(server, acceptor.Acceptor)
        server._resume()
        await committed(client)

    served(chain, PATIENT, work)


# ---- malformed, oversized, pipelined --------------------------------------------------------------------


def test_requests_of_one_connection_are_answered_in_order(chain: Member) -> None:
    async def work(here: Served) -> None:
        client = await here.connect()
        client.send(b"".join(here.submit_request(records) for records in range(1, 11)))
        assert [(await committed(client)).records for _ in range(10)] == list(range(1, 11))

    served(chain, PATIENT, work)


def test_a_flood_of_pipelined_requests_ends_the_connection(chain: Member) -> None:
    async def work(here: Served) -> None:
        client = await here.connect()
        client.send(head("GET", CLUSTER) * 1_000)
        answered = await client.end()
        assert answered.count(b"HTTP/1.1") < 1_000
        await here.commit(await here.connect())

    served(chain, PATIENT, work)


# M: N-04
@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"\xff" * 5_000])
def test_a_malformed_request_is_an_error_in_our_format(
    chain: Member, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(here: Served) -> None:
        client = await here.connect()
        client.send(junk)
        assert await client.error() == (400, "INVALID_REQUEST")
        assert await client.end() == b""
        await here.commit(await here.connect())

    served(chain, ConnectionLimits(linger_s=0.05, sweep_s=0.02), work)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_junk_behind_a_request_is_not_taken_for_its_answer(chain: Member) -> None:
    async def work(here: Served) -> bytes:
        client = await here.connect()
        client.send(here.submit_request() + b"\x00junk\r\n\r\n")
        return await client.end()

    assert b" 400 " not in served(chain, PATIENT, work)


def test_a_head_without_end_is_refused(chain: Member) -> None:
    async def work(here: Served) -> tuple[int, str]:
        client = await here.connect()
        client.send(b"GET / HTTP/1.1\r\n")
        for number in range(4_000):
            client.send(f"x-{number}: {'x' * 50}\r\n".encode())
            await asyncio.sleep(0)
        return await client.error()

    assert served(chain, PATIENT, work) == (431, "INVALID_REQUEST")


# M: N-04
def test_a_body_that_is_refused_before_its_end_ends_the_connection(chain: Member) -> None:
    async def work(here: Served) -> None:
        client = await here.connect()
        client.send(head("POST", SUBMIT, f"content-length: {exchange.MAX_BODY + 1}") + LARGE)
        assert await client.error() == (400, "INVALID_REQUEST")
        client.send(LARGE)
        assert await client.end() == b""

    served(chain, ConnectionLimits(linger_s=0.05, sweep_s=0.02), work)


# M: N-04
def test_half_sent_bodies_take_a_bounded_amount_of_memory_and_small_ones_always_fit(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange._bodies, "most_held", 4 * len(LARGE))

    async def work(here: Served) -> None:
        slow: list[Client] = []
        for _ in range(8):
            slow.append(await here.connect())
            slow[-1].send(head("POST", SUBMIT, f"content-length: {2 * len(LARGE)}") + LARGE)
        await here.until(lambda: sum(bool(client.reader._buffer) for client in slow) >= 3)  # type: ignore[attr-defined]
        assert exchange._bodies.held <= exchange._bodies.most_held
        await here.commit(await here.connect(), 3)
        refused = next(client for client in slow if client.reader._buffer)  # type: ignore[attr-defined]
        assert await refused.error() == (503, "COORDINATOR_NOT_AVAILABLE")

    served(chain, PATIENT, work)
    assert exchange._bodies.held == 0
