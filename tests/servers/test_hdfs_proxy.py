"""The proxy in front of a name node: what it reads from the wire, and what each fault does to client and server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.servers.fault_proxy_rules import Fault, HalfSentBody, Hang, ReplyLost, ResetAfterBody, TruncatedResponse
from tests.servers.hadoop import Hadoop
from tests.servers.hdfs_proxy import HdfsProxy, read_answer, read_request

PREAMBLE = b"hrpc\x09\x00\x00"
CONTEXT_ID = -3
PATIENT_S = 30
CLOSED_PORT = 1  # nobody listens there


def delimited(*messages: bytes) -> bytes:
    return b"".join(bytes([len(each)]) + each for each in messages)


def frame(*messages: bytes) -> bytes:
    body = delimited(*messages)
    return len(body).to_bytes(4, "big") + body


def text(field: int, value: str) -> bytes:
    return bytes([field << 3 | 2]) + delimited(value.encode())


def request(call_id: int, method: str, *paths: str) -> bytes:
    """A call as clients send it, with a client id (field 4) that has to be passed over."""
    zigzag = 2 * call_id if call_id >= 0 else -2 * call_id - 1
    header = b"\x08\x02\x10\x00" + bytes([0x18, zigzag]) + b"\x22" + delimited(bytes(16))
    fields = b"".join(text(number, path) for number, path in enumerate(paths, 1))
    return frame(header, text(1, method) + text(2, "ClientProtocol"), fields)


def answer(call_id: int, error: str = "") -> bytes:
    return frame(bytes([0x08, call_id]) + (b"\x10\x01" + text(4, error) if error else b"\x10\x00"), bytes(40))


CONTEXT = request(CONTEXT_ID, "", "")


class NameNode:
    """Answers every call; `frames` are those that came in whole, or in part before their connection ended."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self._came = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"hdfs://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def wait_for(self, wanted: bytes) -> None:
        with self._came:
            assert self._came.wait_for(lambda: wanted in self.frames, PATIENT_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                if stream.read(len(PREAMBLE)) != PREAMBLE:
                    return
                while length := stream.read(4):
                    body = stream.read(int.from_bytes(length, "big"))
                    with self._came:
                        self.frames.append(length + body)
                        self._came.notify_all()
                    if len(length) < 4 or len(body) < int.from_bytes(length, "big"):
                        return
                    call_id, _, _ = read_request(length + body)
                    if call_id >= 0:
                        connection.sendall(answer(call_id))
            except ConnectionError:
                return


@pytest.fixture
def name_node() -> Iterator[NameNode]:
    with closing(NameNode()) as made:
        yield made


@pytest.fixture
def proxy(name_node: NameNode) -> Iterator[HdfsProxy]:
    with HdfsProxy(name_node.url) as made:
        yield made


def connected(proxy: HdfsProxy) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENT_S)
    client.sendall(PREAMBLE + CONTEXT)
    return client


def received(client: socket.socket, size: int | None = None) -> bytes:
    """So many bytes, or all until the connection ends in order. Raises ConnectionResetError."""
    found = b""
    while size is None or len(found) < size:
        piece = client.recv(1 << 16)
        if not piece:
            break
        found += piece
    return found


# ---- the wire -------------------------------------------------------------------------------------


def test_calls_and_answers_are_read_from_their_frames() -> None:
    assert read_request(request(5, "create", "/a", "mask")) == (5, "create", "/a")
    assert read_request(request(6, "rename2", "/a", "/b")) == (6, "rename2", "/b")
    assert read_request(CONTEXT) == (CONTEXT_ID, "", "")
    assert read_answer(answer(5)) == (5, "ok")
    assert read_answer(answer(5, "java.io.FileNotFoundException")) == (5, "FileNotFoundException")


def test_what_goes_through_is_unchanged_and_recorded(proxy: HdfsProxy, name_node: NameNode) -> None:
    calls = [request(0, "mkdirs", "/a"), request(1, "renewLease", "client"), request(2, "create", "/a/b")]
    with connected(proxy) as client:
        for call_id, call in enumerate(calls):
            client.sendall(call[:7])  # in pieces
            client.sendall(call[7:])
            assert received(client, len(answer(call_id))) == answer(call_id)
    assert name_node.frames == [CONTEXT, *calls]
    assert list(map(str, proxy.calls)) == ["#1 mkdirs /a -> ok", "#2 create /a/b -> ok"]
    proxy.forget()
    assert proxy.calls == ()


# ---- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "applied", "told"),
    [
        (ResetAfterBody(), False, None),
        (HalfSentBody(), False, None),
        (ReplyLost(), True, b""),
        (ReplyLost(reset=True), True, None),
        (TruncatedResponse(), True, answer(1)[: len(answer(1)) // 2]),
    ],
    ids=str,
)
def test_cut_ends_one_connection_and_the_call_is_applied_or_not(
    proxy: HdfsProxy, name_node: NameNode, fault: Fault, applied: bool, told: bytes | None
) -> None:
    """`told`: what the client gets before the end; None: a reset."""
    calls = [request(call_id, "delete", "/a") for call_id in range(2)]
    proxy.spoil(fault, at=1)
    with connected(proxy) as client, connected(proxy) as other:
        client.sendall(calls[0])
        assert received(client, len(answer(0))) == answer(0)
        client.sendall(calls[1])
        if told is None:
            with pytest.raises(ConnectionResetError):
                received(client)
        else:
            assert received(client) == told
        other.sendall(calls[0])
        assert received(other, len(answer(0))) == answer(0)
    assert (name_node.frames.count(calls[1]) == 1) is applied
    assert [each.answer for each in proxy.calls] == ["ok", "ok" if applied else None, "ok"]
    assert [each.fault for each in proxy.calls] == [None, fault, None]
    if isinstance(fault, HalfSentBody):
        name_node.wait_for(calls[1][: len(calls[1]) // 2])


@pytest.mark.parametrize("applied", [False, True])
def test_hang_stops_all_calls_of_its_connection_until_the_proxy_is_closed(name_node: NameNode, applied: bool) -> None:
    with HdfsProxy(name_node.url) as proxy, connected(proxy) as client, connected(proxy) as other:
        proxy.spoil(Hang(applied=applied))
        client.sendall(request(0, "delete", "/a") + request(1, "delete", "/a"))
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            received(client)
        other.sendall(request(7, "delete", "/b"))
        assert received(other, len(answer(7))) == answer(7)
        if applied:
            name_node.wait_for(request(0, "delete", "/a"))
        else:
            assert request(0, "delete", "/a") not in name_node.frames
        assert request(1, "delete", "/a") not in name_node.frames or applied
        proxy.close()
        client.settimeout(PATIENT_S)
        with pytest.raises(ConnectionResetError):
            received(client)


def test_all_calls_are_spoilt_until_the_rule_is_cleared(proxy: HdfsProxy) -> None:
    proxy.spoil(ResetAfterBody(), times=None)
    for _ in range(3):
        with connected(proxy) as client:
            client.sendall(request(0, "delete", "/a"))
            with pytest.raises(ConnectionResetError):
                received(client)
    proxy.clear()
    with connected(proxy) as client:
        client.sendall(request(0, "delete", "/a"))
        assert received(client, len(answer(0))) == answer(0)


def test_faults_begin_at_the_first_call_of_a_method_after_so_many(proxy: HdfsProxy) -> None:
    proxy.spoil(ReplyLost(), at=1, method="delete", times=2)
    for method in ("delete", "mkdirs", "delete", "mkdirs", "delete"):
        with connected(proxy) as client:
            client.sendall(request(0, method, "/a"))
            received(client, len(answer(0)))
    assert [each.fault is not None for each in proxy.calls] == [False, False, True, True, False]


def test_client_is_cut_when_there_is_no_name_node() -> None:
    def ask(proxy: HdfsProxy) -> None:
        with connected(proxy) as client:
            received(client)

    with HdfsProxy(f"hdfs://127.0.0.1:{CLOSED_PORT}") as made, pytest.raises(ConnectionError):
        ask(made)


# ---- a true name node -----------------------------------------------------------------------------


@pytest.mark.slow
def test_calls_of_hdfs_native_are_named(hadoop: Hadoop) -> None:
    from hdfs_native import Client

    with HdfsProxy(hadoop.url) as proxy:
        client = Client(proxy.url)
        client.mkdirs("/named", create_parent=True)
        client.rename("/named", "/renamed", overwrite=False)
        with pytest.raises(FileNotFoundError):
            client.get_file_info("/named")
        assert client.delete("/renamed", recursive=False)
        assert [(each.method, each.path, each.answer) for each in proxy.calls] == [
            ("mkdirs", "/named", "ok"),
            ("rename2", "/renamed", "ok"),
            ("getFileInfo", "/named", "ok"),
            ("delete", "/renamed", "ok"),
        ]
