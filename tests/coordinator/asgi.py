"""Requests to an ASGI application without a server in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp


@dataclass(frozen=True)
class Answer:
    """What came back, and how much of the body was asked for."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    chunks_read: int


async def request(
    app: ASGIApp,
    method: str,
    path: str,
    chunks: Sequence[bytes | None] = (b"",),
    headers: Mapping[str, str] | None = None,
    query: str = "",
    leaves: asyncio.Event | None = None,
) -> Answer:
    """Send one request, its body in chunks; the client is gone where a chunk is None, or once `leaves` is set."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    waiting = list(chunks)
    sent: list[Any] = []

    async def receive() -> dict[str, object]:
        if not waiting:
            await (leaves or asyncio.Event()).wait()
            return {"type": "http.disconnect"}
        chunk = waiting.pop(0)
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *bodies = sent
    return Answer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(each.get("body", b"") for each in bodies),
        len(chunks) - len(waiting),
    )
