"""The work of a coordinator on bytes of records: pages of messages, and records that are appended or read over HTTP.

It waits for stores, and a store may never answer. So it runs in threads that end with the process, only a few at once,
and it never keeps commits waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from sparklog.core.describe.readable import counted, duration
from sparklog.core.errors import StoreUnavailable, TryAgain
from sparklog.host.daemon import in_daemon

ABANDONED: Final = 32  # threads at most
PATIENCE_MS: Final = 20_000  # the longest wait for a turn, and again for the result

T = TypeVar("T")


class RecordWork:
    """Runs pieces of work, at most `at_once` with a waiting caller. To be used from one event loop.

    `waiting_max`: callers that may wait for their turn. `busy`: the error for a further caller. A piece continues after
    its caller has given up; while at least ABANDONED such pieces run, new ones are refused.
    """

    def __init__(self, at_once: int, waiting_max: int = 0, *, busy: str) -> None:
        self._most = at_once + waiting_max
        self._busy = busy
        self._turns = asyncio.Semaphore(at_once)
        self._under_way = 0  # pieces with a caller that waits, for its turn or for the result
        self._abandoned: list[Future[Any]] = []  # pieces that took too long: their threads may never end

    async def run(self, work: Callable[[], T], longer_ms: int = 0) -> T:
        """Return the result of `work`. Raises its errors, and TryAgain if too many callers wait, or this one too long.

        Raises StoreUnavailable if `work` takes longer than PATIENCE_MS and `longer_ms` together.
        """
        self._abandoned = [piece for piece in self._abandoned if not piece.done()]
        if len(self._abandoned) >= ABANDONED:
            raise TryAgain(f"{counted(ABANDONED, 'thread')} for records hang: a store does not answer")
        if self._under_way >= self._most:
            raise self._too_busy()
        self._under_way += 1
        try:
            await self._turn()
            try:
                return await self._done(work, PATIENCE_MS + longer_ms)
            finally:
                self._turns.release()
        finally:
            self._under_way -= 1

    async def _turn(self) -> None:
        try:
            await asyncio.wait_for(self._turns.acquire(), PATIENCE_MS / 1000)
        except TimeoutError:
            raise self._too_busy() from None

    def _too_busy(self) -> TryAgain:
        return TryAgain(f"{self._busy}, which is the limit: try again in some seconds")

    async def _done(self, work: Callable[[], T], patience_ms: int) -> T:
        piece = in_daemon(work, "sparklog-records")
        try:
            return await asyncio.wait_for(asyncio.wrap_future(piece), patience_ms / 1000)
        except TimeoutError:
            raise StoreUnavailable(f"the stores gave no answer in {duration(patience_ms)}") from None
        finally:
            if not piece.done():
                self._abandoned.append(piece)
