"""Bulk requests to S3: what is kept of a connection, when a wait ends, and what an error says of a request."""

from __future__ import annotations

import http.client
import socket
import ssl
from types import SimpleNamespace
from typing import Any

import aiohttp
import fsspec.exceptions
import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError

from sparklog.core.errors import InvalidInput, KeyNotFound, StoreUnavailable
from sparklog.host.deadline import Deadline
from sparklog.storage.open_store import open_store
from sparklog.storage.s3.answers import S3RequestFailed, sorted_failure
from sparklog.storage.s3.bucket import Bucket
from sparklog.storage.s3.bulk import BulkAnswer, _ServerConnections
from sparklog.storage.s3.settings import read_s3_settings
from tests.storage.scripted_s3 import Reply, refusal, scripted_s3
from tests.storage.test_s3 import CREATED, MIB, store_at, whole

PASSED = Deadline(0)


# ---- connections ------------------------------------------------------------------------------------


def test_a_connection_is_kept_for_the_next_request() -> None:
    with scripted_s3(CREATED, whole(b"body"), refusal(404, "NoSuchKey"), whole(b"body")) as server:
        store = store_at(server)
        store.put_if_absent("a", bytes(MIB))
        store.get("a")
        with pytest.raises(KeyNotFound):
            store.get("b")
        store.get("a")
        assert len(server.requests) == 4
        assert server.connections == 1


def test_a_connection_with_bytes_still_to_come_is_not_kept() -> None:
    with scripted_s3(Reply(200, b"the whole body"), whole(b"body")) as server:  # the first knows no ranges
        store = store_at(server)
        assert [bytes(part) for part in store.get_ranges("a", [(4, 9)])] == [b"whole"]
        assert bytes(store.get("a")) == b"body"
        assert server.connections == 2


def test_a_connection_that_the_server_ended_is_not_written_to() -> None:
    server = _ServerConnections("http://127.0.0.1:1", None)
    kept = [http.client.HTTPConnection("127.0.0.1") for _ in range(2)]
    ends = []
    for each in kept:
        each.sock, end = socket.socketpair()
        ends.append(end)
        server.give_back(each)
    ends[1].close()
    with ends[0], kept[0].sock:
        assert server.taken() is kept[0]
        assert kept[1].sock is None
        assert server.taken().sock is None


def test_a_refusal_before_the_end_of_the_body_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with scripted_s3(CREATED) as server, theirs:
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = ours
        monkeypatch.setattr(_ServerConnections, "taken", lambda _server: connection)
        theirs.sendall(b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n")
        theirs.shutdown(socket.SHUT_RD)  # what comes now breaks the pipe
        bucket = Bucket("bucket", read_s3_settings(server.settings))
        with pytest.raises(S3RequestFailed) as raised:
            bucket.put_once_if_absent("a", "write-id", bytes(MIB), Deadline(30_000))
        assert raised.value.exists
        assert connection.sock is None  # and not kept: the rest of the body would be missing
        ours.close()


def test_a_body_is_announced_with_its_length() -> None:
    with scripted_s3(CREATED) as server:
        store_at(server).put_if_absent("a", bytes(MIB))
        (request,) = server.requests
    assert request.headers["content-length"] == str(MIB)
    assert "transfer-encoding" not in request.headers


def test_requests_go_through_the_proxy_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_s3(CREATED, CREATED, whole(b"body")) as server:
        monkeypatch.setenv("http_proxy", server.endpoint_url.replace("http://", "http://somebody:password@"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        store = open_store("s3://bucket/cluster", {**server.settings, "endpoint_url": "http://elsewhere.invalid:81"})
        store.put_if_absent("a", b"small")
        store.put_if_absent("a", bytes(MIB))
        store.get("a")
        assert {each.target for each in server.requests} == {"http://elsewhere.invalid:81/bucket/cluster/a"}
        for each in server.requests:
            assert each.headers["host"] == "elsewhere.invalid:81"
            assert each.headers["proxy-authorization"].startswith("Basic ")


def test_a_redirection_is_not_followed() -> None:
    with scripted_s3(lambda seen: Reply(307, b"", {"Location": f"http://{seen[0].headers['host']}/b"})) as server:
        store = store_at(server)
        for call in (lambda: store.put_if_absent("a", bytes(MIB)), lambda: store.get("a")):
            with pytest.raises(InvalidInput, match="'bucket' is elsewhere"):
                call()
        assert len(server.requests) == 2


# ---- waits --------------------------------------------------------------------------------------------


def test_a_body_that_stops_coming_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline passes while it waits for the second half, however long the first one took."""
    left_s, limits = [30.0], []
    wait_at_most = BulkAnswer._wait_at_most

    def wait(answer: BulkAnswer, deadline: Deadline) -> None:
        is_second = bool(limits)
        left_s[0] = 0.01 if is_second else 30.0
        wait_at_most(answer, deadline)
        limits.append(answer._connection.sock.gettimeout())
        left_s[0] = 0.0 if is_second else 30.0

    monkeypatch.setattr(BulkAnswer, "_wait_at_most", wait)
    monkeypatch.setattr(Deadline, "left_s", lambda deadline: left_s[0])
    stopped = Reply(206, b"bo", {"ETag": '"e"', "Content-Range": "bytes 0-3/4"}, length=4)
    with scripted_s3(stopped) as server, pytest.raises(StoreUnavailable, match="cut at byte 2 of 4"):
        store_at(server).get_ranges("a", [(0, 4)])
    assert limits == [10.0, 0.01]  # a try, and what was left


def test_nothing_is_sent_after_the_deadline() -> None:
    with scripted_s3(CREATED) as server:
        bucket = Bucket("bucket", read_s3_settings(server.settings))
        with pytest.raises(S3RequestFailed, match="no answer in time") as raised:
            bucket.put_once_if_absent("a", "write-id", bytes(MIB), PASSED)
        assert not raised.value.in_doubt
        assert server.requests == []


class Waiting:
    """An answer whose bytes come one by one, on a socket that notes how long it would have been waited for."""

    chunked, status = False, 206

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.length = 100
        self.sock = SimpleNamespace(settimeout=self.waits.append)
        self.fp = SimpleNamespace(readinto1=lambda into: 1)

    def answer(self, wait_s: float) -> BulkAnswer:
        connection: Any = self
        return BulkAnswer(connection, connection, connection, wait_s)


def test_a_wait_for_bytes_is_no_longer_than_the_deadline() -> None:
    patient, hasty = Waiting(), Waiting()
    into = memoryview(bytearray(3))
    assert patient.answer(wait_s=10).read_into(into, Deadline(1_000_000)) == 3
    assert patient.waits == []  # the wait that was set for all of the answer is shorter
    assert hasty.answer(wait_s=1_000_000).read_into(into, Deadline(1_000_000)) == 3
    assert len(hasty.waits) == 3
    assert all(each <= 1_000 for each in hasty.waits)
    with pytest.raises(S3RequestFailed, match="cut at byte 0 of 3"):
        hasty.answer(wait_s=1).read_into(into, PASSED)


# ---- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [TimeoutError("timed out"), ssl.SSLError(1, "bad record mac"), OSError("Tunnel connection failed: 502")],
    ids=lambda each: type(each).__name__,
)
def test_a_request_without_a_connection_was_surely_not_sent(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_connection: http.client.HTTPConnection) -> None:
        raise error

    with scripted_s3(CREATED) as server:
        bucket = Bucket("bucket", read_s3_settings(server.settings))
        monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)
        with pytest.raises(S3RequestFailed) as raised:
            bucket.put_once_if_absent("a", "write-id", bytes(MIB), Deadline(30_000))
    assert raised.value.may_pass
    assert not raised.value.in_doubt


@pytest.mark.parametrize(
    "error",
    [
        ConnectTimeoutError(endpoint_url="", error=aiohttp.ConnectionTimeoutError("too long")),
        EndpointConnectionError(endpoint_url="", error=ConnectionRefusedError(111, "refused")),
        EndpointConnectionError(endpoint_url="", error=socket.gaierror(-2, "Name or service not known")),
    ],
    ids=lambda each: type(each.kwargs["error"]).__name__,
)
def test_a_request_of_s3fs_without_a_connection_was_surely_not_sent(error: Exception) -> None:
    failed = sorted_failure(error)
    assert failed.may_pass
    assert not failed.in_doubt


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (TimeoutError("timed out"), "no answer in time"),
        (ConnectionResetError(104, "reset"), "reset by peer"),
        (BrokenPipeError(32, "pipe"), "Broken pipe"),
        (http.client.RemoteDisconnected("ended"), "RemoteDisconnected"),
        (http.client.BadStatusLine("hello"), "not HTTP"),
        (ssl.SSLError(1, "bad record mac"), "bad record mac"),
        # Of s3fs.
        (fsspec.exceptions.FSTimeoutError(), "no answer in time"),
        (ReadTimeoutError(endpoint_url="", error=TimeoutError()), "ReadTimeoutError"),
        (EndpointConnectionError(endpoint_url="", error=ConnectionResetError(104, "reset")), "reset by peer"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_request_that_was_perhaps_sent_leaves_a_write_in_doubt(error: Exception, says: str) -> None:
    failed = sorted_failure(error)
    assert failed.in_doubt
    assert says in failed.reason
