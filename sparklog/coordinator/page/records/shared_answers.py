"""Answers that several readers of one live page share: fifty of them cost little more than one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from sparklog.host.clock import Clock

FRESH_MS: Final = 1_000  # a page is read again every five seconds
MOST: Final = 8  # kept at once; each may have megabytes


@dataclass(slots=True)
class _Kept:
    task: asyncio.Task[Response]
    made_ms: int


class SharedAnswers:
    """Keeps the newest answers by key. To be used in one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    async def of(self, key: str, make: Callable[[], Coroutine[Any, Any, Response]]) -> Response:
        """The answer that is being made under this key, or was made just now; else what `make` returns.

        Raises what `make` raises. Only answers with status 200 are kept.
        """
        now_ms = self._clock.monotonic_ms()
        self._kept = {name: each for name, each in self._kept.items() if now_ms - each.made_ms < FRESH_MS}
        kept = self._kept.get(key)
        if kept is None:
            kept = _Kept(asyncio.create_task(make()), now_ms)
            if len(self._kept) < MOST:
                self._kept[key] = kept
        try:
            answer = await asyncio.shield(kept.task)  # a reader who leaves takes nothing from the others
        except Exception:
            self._drop(key, kept)
            raise
        if answer.status_code != 200:
            self._drop(key, kept)
        return answer

    def _drop(self, key: str, kept: _Kept) -> None:
        if self._kept.get(key) is kept:
            del self._kept[key]
