"""The reads of a coordinator for its clients. They run in separate threads, so commits never wait for readers.

A standby reads for clients just like the leader. A client may state the newest entry that it has seen: a coordinator
that is behind this entry catches up first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request

from sparklog.chain.follow.follower import Follower
from sparklog.core.coordination import check_chain
from sparklog.core.errors import InvalidInput, TryAgain
from sparklog.core.state import ClusterState
from sparklog.wire.metadata_messages import CHAIN_HEADER, POSITION_HEADER, SEEN_HEADER

THREADS = 8
LOOKUP_THREADS = 2  # for look-ups by time, which read objects of the log and may take seconds
_DIGITS = 19

T = TypeVar("T")


class ReaderThreads:
    """Reads for the clients of one coordinator. To be used from one event loop.

    `waiting_max`: requests that may wait at once. Further ones are refused, so that memory and delays stay bounded.
    """

    def __init__(self, follower: Follower, waiting_max: int) -> None:
        self.follower = follower
        self.waiting_max = waiting_max
        self.waiting = 0
        self._threads = ThreadPoolExecutor(THREADS, "sparklog-reads")
        self._lookup_threads = ThreadPoolExecutor(LOOKUP_THREADS, "sparklog-lookups")

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread, and return its result. Raises its errors, and TryAgain if too many reads wait."""
        return await self._run(work, self._threads)

    async def look_up(self, work: Callable[[], T]) -> T:
        """Run `work` like `run`, but in other threads. For work that reads objects, which may take seconds."""
        return await self._run(work, self._lookup_threads)

    async def state(self, request: Request) -> ClusterState:
        """Return a state no older than the entry in SEEN_HEADER. Without this header, return the newest state.

        Raises InconsistentClusterId if the request is for another cluster, InvalidInput if the header is malformed, and
        TryAgain if too many reads wait or that entry can't be found. Raises the metadata store's errors.
        """
        self.check_chain(request)
        text = request.headers.get(SEEN_HEADER)
        seen = None if text is None else _entry_number(text)
        if seen is None or self.follower.head.n < seen:
            await self.run(self.follower.catch_up)
        state = self.follower.state
        if seen is not None and state.n < seen:
            raise TryAgain(
                f"the client has seen entry {seen}, the newest one that this coordinator can read is {state.n}: ask "
                "another coordinator, or check that the metadata is not an old copy"
            )
        return state

    def check_chain(self, request: Request) -> None:
        """Raise InconsistentClusterId if the request is for another cluster."""
        wanted = request.headers.get(CHAIN_HEADER)
        if wanted is not None:
            check_chain(wanted, self.follower.state.chain_id)

    def headers(self) -> dict[str, str]:
        """Headers of a reply that identify the cluster and the chain position."""
        state = self.follower.state
        return {CHAIN_HEADER: state.chain_id, POSITION_HEADER: str(state.n)}

    async def _run(self, work: Callable[[], T], threads: Executor) -> T:
        if self.waiting >= self.waiting_max:
            raise TryAgain(
                f"{self.waiting} reads wait already, which is the limit (queued.max.requests): send it again later"
            )
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work)
        finally:
            self.waiting -= 1


def _entry_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise InvalidInput(f"{SEEN_HEADER}: wanted the number of an entry, found {text[:30]!r}")
    return int(text)
