"""Requests that wait for the chain: the shell of `core/purgatory.py` in the event loop of a coordinator.

A request is answered as soon as this process has committed or read an entry that completes it. A standby answers such
requests like the leader. This module reads the chain, for entries of other processes, only while a request waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request

from sparklog.chain.follow.follower import Follower
from sparklog.coordinator.http.endpoint import Endpoint
from sparklog.coordinator.http.exchange import Decoders, decoded
from sparklog.core.access import Need, Verb
from sparklog.core.errors import InconsistentClusterId, SparklogError, TryAgain
from sparklog.core.purgatory import Operation, Purgatory, weight
from sparklog.core.types import EntryNumber
from sparklog.wire.messages import WAIT, WaitReply, WaitRequest

MAX_WAIT_MS: Final = 60_000
MAX_WATCHED: Final = 1_000_000  # partitions, topics and operations: some hundred MB at most
SLOT_LOOK_MS: Final = 500  # between looks at the chain's next slot, while requests wait and nothing is committed
AT_ONCE: Final = 256  # operations that are answered before other tasks have a turn

_wait_request = Decoders(WaitRequest)

ClientLeft = Callable[[], Awaitable[object]]  # returns when the client has left


class Waits:
    """All requests that wait at this process. To be used in one event loop. `read` reads the chain to its end."""

    def __init__(self, follower: Follower, read: Callable[[], Awaitable[None]]) -> None:
        self._follower = follower
        self._read = read
        self._purgatory = Purgatory(follower.state)
        self._answers: dict[Operation, asyncio.Future[bool]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_newer = False  # an advance is on its way
        self._closed = False
        self._reading: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """The number of waiting requests."""
        return len(self._answers)

    @property
    def watched(self) -> int:
        """The number of partitions, topics and operations watched for all waiting requests: at most MAX_WATCHED."""
        return self._purgatory.watched

    @property
    def is_looking(self) -> bool:
        """True if the chain is read every SLOT_LOOK_MS, because a request waits."""
        return self._looking is not None

    async def wait(self, request: WaitRequest, client_left: ClientLeft) -> WaitReply:
        """Reply with `done` true once the chain has the wanted state.

        Reply with `done` false after `request.max_wait_ms` (at most MAX_WAIT_MS), when `client_left` returns, or when
        `end_all` is called. Raises TryAgain if `watched` would exceed MAX_WATCHED, or after `close`.
        """
        if not self._closed and self._follower.head.n < request.seen:
            await self._catch_up()
        if self._closed:
            raise TryAgain("this coordinator stops: ask the next one")
        self._begin()
        self._advance()
        wanted = request.wanted
        if self._purgatory.watched + weight(wanted) > MAX_WATCHED:
            raise TryAgain(f"{len(self)} waiting requests watch too much already: ask again later")
        wait_ms = min(request.max_wait_ms, MAX_WAIT_MS)
        operation = self._purgatory.add(wanted, request.seen)
        if operation is None or wait_ms <= 0:
            if operation is not None:
                self._purgatory.remove(operation)
            return self._reply(operation is None)
        return self._reply(await self._answer(operation, wait_ms, client_left))

    def end_all(self) -> None:
        """Answer all waiting requests now, with `done` false.

        Their clients then read the chain, and learn from it which coordinator to ask.
        """
        for operation in self._purgatory.remove_all():
            self._set(operation, done=False)

    def close(self) -> None:
        """Call `end_all`, and refuse all later requests."""
        self._closed = True
        self._follower.on_head = None
        self.end_all()
        if self._looking is not None:
            self._looking.cancel()

    async def _answer(self, operation: Operation, wait_ms: int, client_left: ClientLeft) -> bool:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()
        self._answers[operation] = answer
        late = loop.call_later(wait_ms / 1000, self._set, operation, False)
        left = asyncio.ensure_future(client_left())
        left.add_done_callback(lambda _: self._set(operation, done=False))
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            return await answer
        finally:
            late.cancel()
            left.cancel()
            del self._answers[operation]
            self._purgatory.remove(operation)

    def _set(self, operation: Operation, done: bool) -> None:
        answer = self._answers.get(operation)
        if answer is not None and not answer.done():
            answer.set_result(done)

    def _reply(self, done: bool) -> WaitReply:
        return WaitReply(EntryNumber(self._purgatory.state.n), done)

    # ---- the chain ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Register `_newer` at the first request, so that the follower calls it for each newer head."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._follower.on_head = self._newer

    def _newer(self) -> None:
        """Schedule `_advance` in the event loop, unless it is scheduled already. May be called in any thread."""
        if not self._is_newer and self._loop is not None:
            self._is_newer = True
            self._loop.call_soon_threadsafe(self._advance)

    def _advance(self) -> None:
        self._is_newer = False
        self._set_some(self._purgatory.advance(self._follower.state))

    def _set_some(self, done: list[Operation]) -> None:
        """Answer the requests `done`: at most AT_ONCE of them now, and the others in later rounds of the event loop.

        In between, the event loop can run commits.
        """
        for operation in done[:AT_ONCE]:
            self._set(operation, done=True)
        if len(done) > AT_ONCE:
            asyncio.get_running_loop().call_soon(self._set_some, done[AT_ONCE:])

    async def _look(self) -> None:
        """Read the chain every SLOT_LOOK_MS for entries of other processes, as long as requests wait.

        Skip a read if the head has changed in the last SLOT_LOOK_MS: this process has then committed or read entries.
        """
        try:
            while self._answers:
                n = self._follower.head.n
                await asyncio.sleep(SLOT_LOOK_MS / 1000)
                if self._answers and self._follower.head.n == n:
                    await self._catch_up()
        finally:
            self._looking = None

    async def _catch_up(self) -> None:
        """Read the chain to its end. Concurrent callers share one read. A SparklogError of the read is ignored."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._try_read())
        await asyncio.shield(self._reading)

    async def _try_read(self) -> None:
        try:
            await self._read()
        except SparklogError:
            return  # the loop that leads reports the error; the requests keep waiting
        finally:
            self._reading = None


def waiting_routes(wait: Callable[[WaitRequest, ClientLeft], Awaitable[WaitReply]]) -> list[Endpoint]:
    """The endpoint for requests that wait; `wait` is `Service.wait`."""

    async def waited(request: Request) -> WaitReply:
        return await wait(await decoded(request, _wait_request), request.receive)

    return [
        Endpoint(
            "POST",
            WAIT,
            waited,
            "Wait until the chain has the wanted state, for max_wait_ms at most",
            needs=Need(Verb.DESCRIBE),
            takes=_wait_request,
            gives=WaitReply,
            errors=(InconsistentClusterId,),
        )
    ]
