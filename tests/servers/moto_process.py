"""Moto as a process: `locked` makes each write one step, `ignoring` forgets the condition of writes."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def locked(application: Application) -> Application:
    """One write at a time: moto looks whether a key is there, then writes."""
    lock = threading.Lock()

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return application(environ, start)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)  # read before: a slow writer must not hold up the others
        with lock:
            return list(application(environ, start))

    return answer


def ignoring(application: Application) -> Application:
    """A server that never heard of conditional writes."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return application(environ, start)

    return answer


def main(mode: str, port: int) -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = DomainDispatcherApplication(create_backend_app)
    wrapped = {"locked": locked, "ignoring": ignoring}[mode](application)
    make_server("127.0.0.1", port, wrapped, threaded=True).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
