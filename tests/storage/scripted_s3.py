"""A server on a real socket that answers each request as its script says, and notes what was asked."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """An answer. `length` is what Content-Length claims, if not the truth; `cut` ends the connection after it."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"ETag": '"e"'})
    length: int | None = None
    cut: bool = False


HANG = "hang"  # no answer, and the connection stays open
RESET = "reset"  # no answer, and the connection ends

Step = Reply | str | Callable[[list[Request]], Reply]


def refusal(status: int, code: str, message: str = "because") -> Reply:
    """What S3 says when it does not do it."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Reply(status, body.encode(), {"Content-Type": "application/xml"})


class ScriptedS3:
    """Answers step by step; the last step answers everything after it, too."""

    def __init__(self, listener: socket.socket, script: Sequence[Step], tls: ssl.SSLContext | None = None) -> None:
        self.endpoint_url = f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        self._tls = tls
        self.requests: list[Request] = []
        self.connections = 0
        self._listener = listener
        self._script = list(script)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def settings(self) -> dict[str, str]:
        """What `open_store` needs; with patience: a busy machine is no fault."""
        return {
            "endpoint_url": self.endpoint_url,
            "region": "us-east-1",
            "access_key_id": "AKIDEXAMPLE",
            "secret_access_key": "kept-secret",
            "timeout_ms": "30000",
        }

    def close(self) -> None:
        """End all connections and threads."""
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self._tls is None:
                self._answer_all(connection)
                return
            wrapped = self._tls.wrap_socket(connection, server_side=True)
            with self._lock:
                self._open.append(wrapped)
            self._answer_all(wrapped)

    def _answer_all(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while (request := _read(stream)) is not None:
                with self._lock:
                    self.requests.append(request)
                    step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
                    seen = list(self.requests)
                if step == HANG:
                    self._over.wait()
                    return
                if step == RESET:
                    return
                assert not isinstance(step, str)
                if not self._reply(connection, request, step if isinstance(step, Reply) else step(seen)):
                    return

    def _reply(self, connection: socket.socket, request: Request, reply: Reply) -> bool:
        length = len(reply.body) if reply.length is None else reply.length
        head = [f"HTTP/1.1 {reply.status} Scripted", f"Content-Length: {length}"]
        head += [f"{name}: {value}" for name, value in reply.headers.items()]
        body = b"" if request.method == "HEAD" else reply.body
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        return not reply.cut


def _read(stream: object) -> Request | None:
    line = stream.readline().decode()  # type: ignore[attr-defined]
    if not line.strip():
        return None
    method, target, _ = line.split(" ", 2)
    headers = {}
    while (header := stream.readline().decode().strip()) != "":  # type: ignore[attr-defined]
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", "0")))  # type: ignore[attr-defined]
    return Request(method, target, headers, body)


@contextmanager
def scripted_s3(*script: Step, tls: ssl.SSLContext | None = None) -> Iterator[ScriptedS3]:
    """A server for one test."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = ScriptedS3(listener, script, tls)
    try:
        yield server
    finally:
        server.close()
