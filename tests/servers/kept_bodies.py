"""A tiny HTTP server that keeps what is PUT: what the fault proxy is tested against."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class KeptBodies:
    """What the server holds by path, and the (method, path, headers) of all that it answered."""

    url: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    answered: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # paths of requests that ended in the middle


@contextmanager
def serving() -> Iterator[KeptBodies]:
    """Run the server on a free port of loopback. PUT obeys If-None-Match; GET knows ranges `bytes=a-b`."""
    kept = KeptBodies()

    class Handler(_Handler):
        pass

    Handler.kept = kept

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = False  # so that closing waits for the last answers

    server = Server(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kept: KeptBodies

    def do_PUT(self) -> None:
        body = self._body()
        if body is None:
            self.kept.broken.append(self.path)
            self.close_connection = True
        elif self.headers.get("If-None-Match") == "*" and self.path in self.kept.bodies:
            self._answer(412, b"taken")
        else:
            self.kept.bodies[self.path] = body
            self._answer(200, b"")

    def do_POST(self) -> None:
        self._answer(200, self._body() or b"")

    def do_GET(self) -> None:
        body = self.kept.bodies.get(self.path)
        asked = self.headers.get("Range")
        if body is None:
            self._answer(404, b"nothing here")
        elif asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            self._answer(206, body[int(first) : int(last) + 1])
        else:
            self._answer(200, body, chunked=self.path.endswith("chunked"))

    def do_HEAD(self) -> None:
        body = self.kept.bodies.get(self.path)
        self._answer(404 if body is None else 200, body or b"")

    def do_DELETE(self) -> None:
        self.kept.bodies.pop(self.path, None)
        self._answer(204, b"")

    def _body(self) -> bytes | None:
        """The request's body; None if the connection ended inside it."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            return body if len(body) == length else None
        chunks = []
        while line := self.rfile.readline().strip():
            size = int(line, 16)
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
            if size == 0:
                return b"".join(chunks)
        return None

    def _answer(self, status: int, body: bytes, *, chunked: bool = False) -> None:
        self.kept.answered.append(
            (self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        )
        self.send_response(status)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD" or status == 204:
            return
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body)

    def log_message(self, *args: Any) -> None:
        """Nothing is printed."""
