"""Single requests over HTTP to a server that behaves oddly: how often each is sent, and what its failure means."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest
import requests

from sparklog.storage.cloud.failures import CloudFailure, CloudRequestFailed
from sparklog.storage.cloud.send_once import new_session
from tests.servers.local_server import free_port

Answer = Callable[[socket.socket], None]


def whole_request(connection: socket.socket) -> bytes:
    """Read a request with its body: a connection that is closed before that is reset, and not just ended."""
    read, length = b"", None
    while (end := read.find(b"\r\n\r\n")) < 0 or len(read) < end + 4 + int(length[1] if length else 0):
        part = connection.recv(65_536)
        if not part:
            break
        read += part
        length = re.search(rb"(?i)content-length: (\d+)", read)
    return read


@contextmanager
def server(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives each connection to `answer`, after it has read what came first. Its URL, and what it read."""
    heard: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                with listener.accept()[0] as connection:
                    heard.append(whole_request(connection))
                    with suppress(OSError):
                        answer(connection)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heard
        listener.shutdown(socket.SHUT_RDWR)


def closes(_: socket.socket) -> None:
    """Answer nothing."""


def drips(connection: socket.socket) -> None:
    """Begin a long answer, then send a byte now and then."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(200):
        connection.sendall(b".")
        time.sleep(0.05)


def redirects(connection: socket.socket) -> None:
    host, port = connection.getsockname()
    connection.sendall(f"HTTP/1.1 307 Moved\r\nLocation: http://{host}:{port}/b\r\nContent-Length: 0\r\n\r\n".encode())


def send(session: requests.Session, method: str, url: str, timeout_s: float = 5) -> CloudFailure:
    """Send a request that fails, and return the kind of the failure."""
    with pytest.raises(CloudRequestFailed) as failed:
        session.request(method, url, data=b"body" if method == "PUT" else None, timeout=(1, timeout_s))
    return failed.value.kind


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_request_whose_answer_is_lost_is_in_doubt_and_not_sent_again(method: str) -> None:
    with server(closes) as (url, heard), new_session(5) as session:
        assert send(session, method, f"{url}/a") is CloudFailure.NO_ANSWER
    assert len(heard) == 1


def test_a_lost_answer_is_in_doubt_also_while_a_refused_connection_is_handled() -> None:
    with server(closes) as (url, _), new_session(5) as session:
        try:
            session.put(f"http://127.0.0.1:{free_port()}/a", data=b"", timeout=(1, 5))
        except CloudRequestFailed as failed:
            refused = failed
            for body in (b"body", b""):
                with pytest.raises(CloudRequestFailed, match="NO_ANSWER: the connection broke"):
                    session.put(f"{url}/a", data=body, timeout=(1, 5))
        assert refused.kind is CloudFailure.NOT_DONE


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_redirect_is_not_followed_and_not_believed(method: str) -> None:
    with server(redirects) as (url, heard), new_session(5) as session:
        assert send(session, method, f"{url}/a") is CloudFailure.NOT_THE_STORE
    assert len(heard) == 1


def test_an_answer_that_comes_byte_by_byte_ends_at_the_deadline() -> None:
    with server(drips) as (url, _), new_session(5) as session:
        began_s = time.monotonic()
        assert send(session, "GET", url, 1) is CloudFailure.NO_ANSWER
        assert time.monotonic() - began_s < 4


def test_credentials_of_a_netrc_file_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("requests.sessions.get_netrc_auth", lambda url: ("someone", "kept-secret"))
    with server(closes) as (url, heard), new_session(5) as session:
        send(session, "GET", f"{url}/a")
    assert b"Authorization" not in heard[0]
