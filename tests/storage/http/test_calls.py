"""Requests of a client to coordinators: where its token goes, where it does not, and what it says when it fails."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import AuthenticationFailed, InvalidOption, Landed, SparklogError, TlsFailed
from sparklog.storage.http.calls import Calls
from sparklog.wire.error_messages import error_reply
from sparklog.wire.messages import CONTENT_TYPE
from tests.client.scripted_coordinator import scripted_coordinator

TOKEN = "sparklog_a-token"


@contextmanager
def server(good: list[str]) -> Iterator[tuple[str, list[str | None]]]:
    """Its address, and the headers with tokens that it got. It answers 401 to tokens that are not in `good`."""
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("authorization"))
            refused = (seen[-1] or "").removeprefix("Bearer ") not in good
            body = msgspec.msgpack.encode(error_reply(AuthenticationFailed("who?"))) if refused else b"ok"
            self.send_response(401 if refused else 200)
            self.send_header("content-type", CONTENT_TYPE)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_address[1]}", seen
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


def calls(token: str | None = TOKEN, ca: str | None = None) -> Calls:
    return Calls(lambda: StorageSettings(token=token, ca=ca))


def get(sender: Calls, address: str) -> int:
    return sender.request("GET", address, "/x", read_s=10).status


def test_a_token_is_sent_as_a_bearer_of_its_own() -> None:
    with server([TOKEN, ""]) as (address, seen):
        assert get(calls(), address) == 200
        assert get(calls(None), address) == 200
    assert seen == [f"Bearer {TOKEN}", None]


# M: N-05
def test_a_process_that_runs_for_long_takes_a_new_token_when_its_old_one_is_refused() -> None:
    tokens = ["old"]
    good = ["old"]
    sender = Calls(lambda: StorageSettings(token=tokens[-1]))
    with server(good) as (address, seen):
        assert get(sender, address) == 200
        tokens.append("new")
        assert get(sender, address) == 200  # the old one is still good
        good[:] = ["new"]
        assert get(sender, address) == 200
        good[:] = ["newer"]
        assert get(sender, address) == 401  # there is no other one
    assert seen == [f"Bearer {token}" for token in ("old", "old", "old", "new", "new")]


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "example.org", "localhost.example.org", "127.0.0.1.example.org", "[fe80::1]"]
)
def test_a_token_does_not_leave_this_machine_in_clear(host: str) -> None:
    with pytest.raises(TlsFailed, match="a token is sent over TLS or to this machine only") as raised:
        get(calls(), f"http://{host}:7400")
    assert raised.value.landed is Landed.NO


@pytest.mark.parametrize("token", ["a\nb", "a b", "", "ä", "a\r\nx-other: y", "sparklog_x\n"])
def test_what_can_not_be_a_header_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidOption, match="wanted one line of ASCII without spaces, found another") as raised:
        get(calls(token), "http://127.0.0.1:1")
    assert "sparklog_x" not in str(raised.value)


def test_a_file_that_has_no_certificates_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    for name, found in (("none", "No such file or directory"), ("text", "NO_CERTIFICATE_OR_CRL_FOUND")):
        with pytest.raises(InvalidOption, match=rf"cluster.ca \(SPARKLOG_CA\): .*{name}: {found}"):
            get(calls(ca=str(tmp_path / name)), "https://127.0.0.1:1")


def test_a_server_without_tls_is_named_so() -> None:
    with server([TOKEN]) as (address, seen):
        secured = address.replace("http:", "https:")
        with pytest.raises(TlsFailed, match="does not speak TLS: if a coordinator is there, its address is http://"):
            get(calls(), secured)
    assert seen == []


@pytest.mark.parametrize(("method", "landed"), [("GET", Landed.NO), ("POST", Landed.UNKNOWN)])
def test_a_server_that_hangs_up_in_the_handshake_leaves_the_outcome_of_a_command_open(
    method: str, landed: Landed
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(SparklogError, match=r"EOF|reset|closed|aborted") as raised:
            calls().request(method, f"https://127.0.0.1:{listener.getsockname()[1]}", "/", read_s=10)
        thread.join()
    assert raised.value.landed is landed


def test_a_refusal_after_a_lost_reply_says_that_the_command_may_have_landed(tmp_path: Path) -> None:
    init_cluster(str(tmp_path / "cluster"))
    with connect(str(tmp_path / "cluster")) as cluster, connect(str(tmp_path / "cluster")) as own:
        cluster.create_topic("t")
        with scripted_coordinator(own) as scripted:
            scripted.claim()
            for script, landed in ((["drop", "refused"], Landed.UNKNOWN), (["refused"], Landed.NO)):
                scripted.script += script
                with pytest.raises(AuthenticationFailed) as raised:
                    cluster.append("t", pa.table({"value": ["x"]}))
                assert raised.value.landed is landed
        assert len(scripted.requests) == 3
