"""Replies with records, whose memory is bounded even if clients read them slowly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sparklog.coordinator.http.exchange import SMALL_BODY
from sparklog.core.describe.readable import amount
from sparklog.core.errors import TryAgain

MOST_REPLIES: Final = 64 * 2**20  # bytes of all replies together, not counting SMALL_BODY of each
SLOW_MS: Final = 1_000
_CHUNK: Final = 64 * 2**10  # bytes that are written at once: the connection holds only a few
DROP: Final = "sparklog.drop"  # in the scope of a request: a function that drops its connection


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A reply that is not written yet: the bytes of it that count, when its writing began, and `drop`."""

    size: int
    since_ms: int
    drop: Callable[[], None] | None


class Replies:
    """Limits the bodies of replies together to `most_held` bytes, from the end of a read until they are written.

    Of each body, the first SMALL_BODY bytes do not count. `held`: the bytes that count now. To be used from one event
    loop.
    """

    def __init__(self, most_held: int, monotonic_ms: Callable[[], int]) -> None:
        self.held = 0
        self._most_held = most_held
        self._monotonic_ms = monotonic_ms
        self._under_way: dict[object, _UnderWay] = {}  # by response, the oldest first

    def held_reply(self, request: Request, reply: Response) -> Response:
        """The response with this reply, which counts from now on. To be returned at once by the handler.

        If there are too many bytes, the connections whose replies have been under way longest are dropped, each for at
        least SLOW_MS. Raises TryAgain if that is not enough.
        """
        size = max(0, len(reply.body) - SMALL_BODY)
        now_ms = self._monotonic_ms()
        if size:
            self._make_room(size, now_ms)
        held = _HeldReply(reply, self)
        self._under_way[held] = _UnderWay(size, now_ms, request.scope.get(DROP))
        self.held += size
        return held

    def forget(self, reply: object) -> None:
        """Stop counting a reply: it was written, or its connection is gone."""
        known = self._under_way.pop(reply, None)
        self.held -= 0 if known is None else known.size

    def _make_room(self, size: int, now_ms: int) -> None:
        slow = [
            (reply, known.drop)
            for reply, known in self._under_way.items()
            if known.size and known.drop is not None and now_ms >= known.since_ms + SLOW_MS
        ]
        for reply, drop in slow:
            if self.held + size <= self._most_held:
                return
            self.forget(reply)
            drop()
        if self.held + size > self._most_held:
            raise TryAgain(f"replies of {amount(self.held)} are being read, at most {amount(self._most_held)} may be")


class _HeldReply(Response):
    """A response that is written in chunks, no faster than the client reads it."""

    def __init__(self, reply: Response, replies: Replies) -> None:
        super().__init__(reply.body, reply.status_code, dict(reply.headers))
        self.headers["cache-control"] = "no-store"
        self._replies = replies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for start in range(0, len(self.body), _CHUNK):
                end = start + _CHUNK
                body = bytes(self.body[start:end])
                await send({"type": "http.response.body", "body": body, "more_body": end < len(self.body)})
        finally:
            self._replies.forget(self)
