"""Moto as a process: `locked` makes each write one step, `ignoring` forgets the condition of writes, `looking` looks
for the key, then receives the body, then writes."""

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


def looking(application: Application) -> Application:
    """A server that races, as versitygw 1.7 does: who looks before another one has written wins too."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "PUT" or "HTTP_IF_NONE_MATCH" not in environ:
            return application(environ, start)
        if _is_there(application, environ):
            return application(environ, start)  # which refuses it
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        unconditional = {name: value for name, value in environ.items() if name != "HTTP_IF_NONE_MATCH"}
        return application({**unconditional, "wsgi.input": io.BytesIO(body)}, start)

    return answer


def _is_there(application: Application, environ: dict[str, Any]) -> bool:
    told: list[str] = []
    head = {"REQUEST_METHOD": "HEAD", "CONTENT_LENGTH": "0", "wsgi.input": io.BytesIO()}
    asked = {name: value for name, value in environ.items() if name != "HTTP_IF_NONE_MATCH"}
    list(application({**asked, **head}, lambda status, *_: told.append(status)))
    return told[0].startswith("200")


def main(mode: str, port: int) -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = DomainDispatcherApplication(create_backend_app)
    wrapped = {"locked": locked, "ignoring": ignoring, "looking": looking}[mode](application)
    make_server("127.0.0.1", port, wrapped, threaded=True).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
