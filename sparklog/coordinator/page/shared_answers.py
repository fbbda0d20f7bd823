"""Answers that the readers of one page share: fifty browsers on the same page cost little more than one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from sparklog.host.clock import Clock

FRESH_MS: Final = 1_000  # the script of a page reads it again every eight seconds
MOST: Final = 16  # kept at once: most have some 50 KiB, a page of records up to some MiB


@dataclass(slots=True)
class _Kept:
    task: asyncio.Task[Response]
    made_ms: int | None = None  # None while it is being made, however long that takes


class SharedAnswers:
    """Keeps at most MOST answers by key, each for FRESH_MS. To be used in one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    async def of(self, key: str, make: Callable[[], Coroutine[Any, Any, Response]]) -> Response:
        """Return the answer that another call with this `key` is making, or made less than FRESH_MS ago.

        If there is none, return the result of `make`. Only answers with status 200 are shared, because an error may
        concern only one reader. Raises the errors of `make`.
        """
        now_ms = self._clock.monotonic_ms()
        self._kept = {
            name: kept for name, kept in self._kept.items() if kept.made_ms is None or now_ms - kept.made_ms < FRESH_MS
        }
        kept = self._kept.get(key)
        is_own = kept is None
        if kept is None:
            kept = _Kept(asyncio.create_task(make()))
            if len(self._kept) < MOST:
                self._kept[key] = kept
        try:
            answer = await asyncio.shield(kept.task)  # one reader's leaving must not affect the others
        except Exception:
            self._drop(key, kept)
            raise
        if kept.made_ms is None:
            kept.made_ms = self._clock.monotonic_ms()
        if answer.status_code == 200:
            return answer
        self._drop(key, kept)
        return answer if is_own else await make()

    def _drop(self, key: str, kept: _Kept) -> None:
        if self._kept.get(key) is kept:
            del self._kept[key]
