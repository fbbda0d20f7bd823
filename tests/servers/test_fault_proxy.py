"""Each fault of the proxy does what its name says, to the client and to the server."""

from __future__ import annotations

import http.client
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from tests.servers.fault_proxy import FaultProxy
from tests.servers.fault_proxy_rules import (
    Answer,
    Fault,
    HalfSentBody,
    Hang,
    ReplyLost,
    Request,
    ResetAfterBody,
    ResetBeforeBody,
    StripHeaders,
    TruncatedResponse,
    kind_of,
)
from tests.servers.kept_bodies import KeptBodies, serving

BODY = bytes(range(256)) * 8


@pytest.fixture
def server() -> Iterator[KeptBodies]:
    with serving() as kept:
        yield kept


@pytest.fixture
def proxy(server: KeptBodies) -> Iterator[FaultProxy]:
    with FaultProxy(server.url) as made:
        yield made


def connection(proxy: FaultProxy, timeout_s: float = 30) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=timeout_s))


def ask(
    proxy: FaultProxy, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    with connection(proxy) as client:
        client.request(method, path, body, headers or {})
        answer = client.getresponse()
        return answer.status, answer.read()


# ---- without faults -------------------------------------------------------------------------------


def test_what_goes_through_is_unchanged(proxy: FaultProxy, server: KeptBodies) -> None:
    with connection(proxy) as client:  # all on one connection
        for body in (b"", b"x", BODY, bytes(3 << 20)):
            client.request("PUT", f"/bucket/{len(body)}", body)
            assert client.getresponse().read() == b""
            client.request("GET", f"/bucket/{len(body)}")
            assert client.getresponse().read() == body
            client.request("HEAD", f"/bucket/{len(body)}")
            head = client.getresponse()
            assert (head.read(), head.getheader("Content-Length")) == (b"", str(len(body)))
            client.request("GET", f"/bucket/{len(body)}", headers={"Range": "bytes=1-9"})
            assert client.getresponse().read() == body[1:10]
            client.request("DELETE", f"/bucket/{len(body)}")
            assert client.getresponse().read() == b""
            client.request("GET", f"/bucket/{len(body)}")
            missing = client.getresponse()
            assert (missing.status, missing.read()) == (404, b"nothing here")
    assert not server.bodies
    assert not server.broken


def test_bodies_in_chunks_go_through_both_ways(proxy: FaultProxy, server: KeptBodies) -> None:
    with connection(proxy) as client:
        client.request("PUT", "/bucket/chunked", iter([b"a" * 1000, b"b" * 70_000]), encode_chunked=True)
        assert client.getresponse().read() == b""
        client.request("GET", "/bucket/chunked")
        answer = client.getresponse()
        assert answer.getheader("Transfer-Encoding") == "chunked"
        assert answer.read() == server.bodies["/bucket/chunked"] == b"a" * 1000 + b"b" * 70_000


def test_the_server_sees_the_host_that_the_client_named(proxy: FaultProxy, server: KeptBodies) -> None:
    ask(proxy, "PUT", "/bucket/a", b"1", {"X-Amz-Date": "now", "If-None-Match": "*"})
    seen = server.answered[0][2]
    assert (seen["host"], seen["x-amz-date"], seen["if-none-match"]) == (f"127.0.0.1:{proxy.port}", "now", "*")


def test_a_body_follows_only_after_the_server_asked_for_it(proxy: FaultProxy, server: KeptBodies) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), 30) as client, client.makefile("rb") as answers:
        for path in ("/bucket/first", "/bucket/second"):
            head = f"PUT {path} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
            client.sendall(head.encode())
            assert answers.readline() == b"HTTP/1.1 100 Continue\r\n"
            assert path not in server.bodies
            assert answers.readline() == b"\r\n"
            client.sendall(b"hello")
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            while answers.readline() != b"\r\n":
                pass
    assert set(server.bodies.values()) == {b"hello"}


def test_many_clients_at_once_are_told_apart(proxy: FaultProxy) -> None:
    def put_and_get(number: int) -> bool:
        body = b"%d" % number * 1000
        return (
            ask(proxy, "PUT", f"/bucket/{number}", body)[0] == 200 and ask(proxy, "GET", f"/bucket/{number}")[1] == body
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(put_and_get, range(100)))
    assert proxy.counts() == Counter(PUT=100, GET=100)


def test_a_server_that_is_gone_looks_like_a_broken_connection(proxy: FaultProxy, server: KeptBodies) -> None:
    alive = proxy.upstream
    with socket.create_server(("127.0.0.1", 0)) as free:
        proxy.upstream = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ConnectionError):
        ask(proxy, "PUT", "/bucket/a", BODY)
    proxy.upstream = alive
    assert ask(proxy, "PUT", "/bucket/a", BODY)[0] == 200
    assert [each.status for each in proxy.requests] == [None, 200]


# ---- the record -----------------------------------------------------------------------------------


def test_requests_are_recorded_with_what_came_of_them(proxy: FaultProxy) -> None:
    ask(proxy, "PUT", "/bucket/a/b", BODY)
    ask(proxy, "GET", "/bucket/a/b?versionId=1", headers={"Range": "bytes=0-3"})
    ask(proxy, "GET", "/bucket?list-type=2&prefix=a")
    first, second, third = proxy.requests
    assert (first.kind, first.key, first.status, first.upstream_status) == ("PUT", "a/b", 200, 200)
    assert (second.method, second.query, second.range, second.status) == ("GET", "versionId=1", "bytes=0-3", 404)
    assert (third.kind, third.path, third.number) == ("LIST", "/bucket", 3)
    assert proxy.counts() == Counter(PUT=1, GET=1, LIST=1)
    proxy.forget()
    assert not proxy.requests


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("PUT", "/b/k", "PUT"),
        ("PUT", "/b", "CREATE_BUCKET"),
        ("PUT", "/b/k?partNumber=1&uploadId=u", "UPLOAD_PART"),
        ("POST", "/b/k?uploads", "CREATE_MULTIPART"),
        ("POST", "/b/k?uploads=", "CREATE_MULTIPART"),
        ("POST", "/b/k?uploadId=u", "COMPLETE_MULTIPART"),
        ("POST", "/b?delete", "DELETE_MANY"),
        ("DELETE", "/b/k?uploadId=u", "ABORT_MULTIPART"),
        ("DELETE", "/b/k", "DELETE"),
        ("GET", "/b/k", "GET"),
        ("GET", "/b/", "LIST"),
        ("GET", "/b?list-type=2&prefix=k%2F", "LIST"),
        ("GET", "/b?uploads", "LIST"),
        ("HEAD", "/b/k", "HEAD"),
        ("HEAD", "/b", "HEAD_BUCKET"),
    ],
)
def test_operations_are_told_apart(method: str, target: str, kind: str) -> None:
    split = urlsplit(target)
    assert kind_of(method, split.path, split.query, {}) == kind


def test_a_copy_is_no_upload() -> None:
    assert kind_of("PUT", "/b/k", "", {"x-amz-copy-source": "/b/old"}) == "COPY"


# ---- faults ---------------------------------------------------------------------------------------

NOT_APPLIED = [
    ResetBeforeBody(),
    ResetAfterBody(),
    HalfSentBody(),
    Answer(500),
    Answer(503),
    Answer(409),
    Answer(404),
    Answer(403),
    Answer(412),
]
APPLIED = [
    ReplyLost(),
    ReplyLost(reset=True),
    TruncatedResponse(),
    Answer(500, applied=True),
    Answer(404, applied=True),
    StripHeaders(),
]


@pytest.mark.parametrize("fault", NOT_APPLIED, ids=str)
def test_fault_leaves_the_server_as_it_was(proxy: FaultProxy, server: KeptBodies, fault: Fault) -> None:
    proxy.plan(fault)
    if isinstance(fault, Answer):
        status, body = ask(proxy, "PUT", "/bucket/a", BODY)
        assert status == fault.status
        assert b"<Error><Code>" in body
    else:
        with pytest.raises(ConnectionError):
            ask(proxy, "PUT", "/bucket/a", BODY)
    spoilt = proxy.requests[0]
    assert (spoilt.fault, spoilt.reached_upstream) == (fault, False)
    assert "/bucket/a" not in server.bodies
    assert ask(proxy, "PUT", "/bucket/a", BODY) == (200, b"")  # one time only
    assert server.bodies["/bucket/a"] == BODY


@pytest.mark.parametrize("fault", APPLIED, ids=str)
def test_fault_comes_after_the_server_did_it(proxy: FaultProxy, server: KeptBodies, fault: Fault) -> None:
    proxy.plan(fault)
    match fault:
        case Answer():
            assert ask(proxy, "PUT", "/bucket/a", BODY)[0] == fault.status
        case StripHeaders():
            assert ask(proxy, "PUT", "/bucket/a", BODY)[0] == 200
        case _:
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                ask(proxy, "PUT", "/bucket/a", BODY)
    assert proxy.requests[0].upstream_status == 200
    assert server.bodies["/bucket/a"] == BODY
    assert ask(proxy, "GET", "/bucket/a") == (200, BODY)


def test_half_of_a_body_reaches_the_server(proxy: FaultProxy, server: KeptBodies) -> None:
    proxy.plan(HalfSentBody())
    with pytest.raises(ConnectionError):
        ask(proxy, "PUT", "/bucket/a", BODY)
    proxy.plan(HalfSentBody())
    with pytest.raises(ConnectionError):
        ask(proxy, "GET", "/bucket/a")
    ask(proxy, "PUT", "/bucket/b", BODY)
    assert [(method, path) for method, path, _ in server.answered] == [("PUT", "/bucket/b")]


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize("fault", [ReplyLost(), ResetBeforeBody(), ResetAfterBody(), HalfSentBody()], ids=str)
def test_requests_without_a_body_break_as_well(proxy: FaultProxy, fault: Fault, method: str) -> None:
    proxy.plan(fault)
    with pytest.raises(ConnectionError):
        ask(proxy, method, "/bucket/a")
    assert ask(proxy, method, "/bucket/a")[0] in (404, 204)


@pytest.mark.parametrize("path", ["/bucket/plain", "/bucket/chunked"])
def test_a_cut_answer_promises_more_than_comes(proxy: FaultProxy, path: str) -> None:
    ask(proxy, "PUT", path, BODY)
    proxy.plan(TruncatedResponse())
    with connection(proxy) as client:
        client.request("GET", path)
        answer = client.getresponse()
        assert answer.status == 200
        with pytest.raises(http.client.IncompleteRead) as caught:
            answer.read()
    assert len(caught.value.partial) <= len(BODY) // 2 + 8


def test_an_answer_with_a_code_of_its_own(proxy: FaultProxy) -> None:
    proxy.plan(Answer(200, "InternalError"))
    status, body = ask(proxy, "POST", "/bucket/a?uploadId=u", b"<parts/>")
    assert (status, b"<Code>InternalError</Code>" in body) == (200, True)
    proxy.plan(Answer(404))
    with connection(proxy) as client:  # a HEAD has no body, and the connection goes on
        client.request("HEAD", "/bucket/a")
        assert client.getresponse().read() == b""
        client.request("PUT", "/bucket/a", b"1")
        assert client.getresponse().status == 200


def test_a_stripped_condition_lets_the_second_writer_through(proxy: FaultProxy, server: KeptBodies) -> None:
    condition = {"If-None-Match": "*"}
    assert ask(proxy, "PUT", "/bucket/a", b"1", condition)[0] == 200
    assert ask(proxy, "PUT", "/bucket/a", b"2", condition)[0] == 412
    proxy.plan(StripHeaders(("if-none-match",)), times=None)
    assert ask(proxy, "PUT", "/bucket/a", b"3", condition)[0] == 200
    assert server.bodies["/bucket/a"] == b"3"
    assert "if-none-match" not in server.answered[-1][2]


@pytest.mark.parametrize("fault", [Hang(), Hang(takes_body=False), Hang(applied=True)], ids=str)
def test_a_hang_lasts_until_the_client_gives_up(proxy: FaultProxy, server: KeptBodies, fault: Hang) -> None:
    proxy.plan(fault)
    with connection(proxy) as client:
        client.request("PUT", "/bucket/a", BODY)
        client.sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.getresponse()
        while fault.applied and "/bucket/a" not in server.bodies:
            threading.Event().wait(0.01)
    assert ask(proxy, "GET", "/bucket/b")[0] == 404
    assert ("/bucket/a" in server.bodies) == fault.applied
    assert proxy.requests[0].status is None


def test_closing_the_proxy_ends_a_hang(server: KeptBodies) -> None:
    with FaultProxy(server.url) as proxy, connection(proxy) as client:
        proxy.plan(Hang())
        client.request("GET", "/bucket/a")
        proxy.close()
        with pytest.raises(ConnectionError):
            client.getresponse()
        with pytest.raises(ConnectionError):
            ask(proxy, "GET", "/bucket/a")
    assert "fault-proxy" not in [each.name for each in threading.enumerate()]


def test_a_hanging_request_asks_for_no_body(proxy: FaultProxy) -> None:
    proxy.plan(Hang(takes_body=False))
    with socket.create_connection(("127.0.0.1", proxy.port), 0.1) as client:
        client.sendall(b"PUT /bucket/a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        with pytest.raises(TimeoutError):
            client.recv(1)


# ---- which request --------------------------------------------------------------------------------


def statuses(proxy: FaultProxy, count: int, path: str = "/bucket/a") -> list[int]:
    return [ask(proxy, "GET", path)[0] for _ in range(count)]


def test_a_plan_counts_only_the_requests_that_fit(proxy: FaultProxy) -> None:
    def lists(request: Request) -> bool:
        return request.kind == "LIST"

    proxy.plan(Answer(503), lists, skip=1, times=2)
    assert statuses(proxy, 2) == [404, 404]
    assert statuses(proxy, 4, "/bucket?list-type=2") == [404, 503, 503, 404]
    proxy.plan(Answer(500), times=None)
    assert statuses(proxy, 3) == [500, 500, 500]
    proxy.clear()
    assert statuses(proxy, 1) == [404]


def test_dice_with_the_same_seed_spoil_the_same_requests(server: KeptBodies) -> None:
    seen = []
    for seed in (1, 1, 2):
        with FaultProxy(server.url) as proxy:
            proxy.roll([Answer(500), Answer(503)], every=4, seed=seed)
            seen.append(statuses(proxy, 40))
    assert seen[0] == seen[1] != seen[2]
    assert 3 <= 40 - seen[0].count(404) <= 20


def test_every_request_waits_for_the_delay(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def note(delay_s: float) -> None:
        waited.append(delay_s)

    monkeypatch.setattr("tests.servers.fault_proxy.asyncio.sleep", note)
    proxy.delay_ms = 30
    assert statuses(proxy, 2) == [404, 404]
    assert waited == [0.03, 0.03]
