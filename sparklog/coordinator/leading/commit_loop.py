"""Commits commands to the chain from an event loop: the shell that drives the machine of `group_commit.py`.

Store calls block, so the machine's requests are performed by a few threads; everything else happens in the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from sparklog.chain.chain_requests import Now, Pause, Reply, Request
from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.commit.commit_counts import CommitCounts
from sparklog.chain.commit.group_commit import GroupCommit
from sparklog.chain.follow.follower import Follower
from sparklog.chain.snapshot.snapshot_writer import SnapshotWriter
from sparklog.core.commands import Submission
from sparklog.core.coordination import Author
from sparklog.core.errors import RequestTimedOut
from sparklog.core.records import CommandResult
from sparklog.host.clock import Clock
from sparklog.host.dice import jittered, new_id

AWAKE = 32  # commands whose callers wake in one round of the loop: the first replies leave before the last is made


@dataclass(slots=True, eq=False)
class _Call:
    """A call of `submit_all` that waits. `open`: the number of its commands without an outcome.

    `done` completes when all commands of the call have an outcome.
    """

    open: int
    done: asyncio.Future[None]


class CommitLoop:
    """Submits commands to one chain under one author. To be used from one event loop only."""

    def __init__(self, follower: Follower, author: Author, threads: Executor, clock: Clock | None = None) -> None:
        self.follower = follower
        self.clock = clock or follower.clock
        self._machine = GroupCommit(
            author, follower.store.url, follower.head, self.clock.monotonic_ms(), follower.mirrors_wanted
        )
        self.snapshots = SnapshotWriter(follower)
        self._threads = threads
        self._waiting: dict[Ticket, _Call] = {}
        self._handed_in: list[Ticket] = []  # since the loop last looked: they go to the machine together
        self._waking = False  # true if more callers are woken in the next round of the loop
        self._performing: set[asyncio.Task[None]] = set()

    @property
    def counts(self) -> CommitCounts:
        """Counts of the commits that this object has made."""
        return self._machine.counts

    @property
    def author(self) -> Author:
        """The author named in the entries that this loop commits."""
        return self._machine.author

    async def submit(self, submission: Submission, timeout_ms: int) -> CommandResult:
        """Commit one command, and return its result. Raises the errors of `Committer.submit`.

        If the caller is cancelled, the command stays in the queue, and may still land.
        """
        (ticket,) = await self.submit_all([(submission, timeout_ms)])
        return ticket.outcome()

    async def submit_all(self, commands: Sequence[tuple[Submission, int]]) -> Sequence[Ticket]:
        """Commit commands, each with its timeout in ms. Once all are done, return a ticket with the outcome of each.

        Commands of other callers in the same round of the event loop are handed to the machine together with these.
        """
        now_ms = self.clock.monotonic_ms()
        tickets = [Ticket(submission, now_ms + timeout_ms, timeout_ms) for submission, timeout_ms in commands]
        loop = asyncio.get_running_loop()
        call = _Call(len(tickets), loop.create_future())
        for ticket in tickets:
            self._waiting[ticket] = call
        if not self._handed_in:
            loop.call_soon(self._hand_in)
        self._handed_in.extend(tickets)
        if tickets:
            await call.done
        self.snapshots.write_if_due()
        return tickets

    async def close(self) -> None:
        """Wait until all requests of the machine are done, and no snapshot is being written."""
        while self._performing:
            await asyncio.wait(self._performing)
        await asyncio.to_thread(self.snapshots.close)

    def _hand_in(self) -> None:
        tickets, self._handed_in = self._handed_in, []
        try:
            self._machine.learn(self.follower.head)
            self._machine.submit_all(tickets, self._now())
            self._continue()
        except Exception as error:
            self._end_all(error)

    def _continue(self) -> None:
        """Publish the machine's new head, wake callers whose commands are done, and perform the machine's requests."""
        machine = self._machine
        if machine.head is not self.follower.head:
            self.follower.publish(machine.head)
        self._wake()
        while machine.requests:
            task = asyncio.create_task(self._perform(machine.requests.popleft()))
            self._performing.add(task)
            task.add_done_callback(self._performing.discard)

    def _wake(self) -> None:
        """Wake callers whose commands are done: at most AWAKE now, the others in later rounds of the event loop."""
        ended = self._machine.ended
        for _ in range(min(AWAKE, len(ended))):
            call = self._waiting.pop(ended.popleft(), None)
            if call is None:
                continue
            call.open -= 1
            if not call.open and not call.done.done():  # a caller may have been cancelled
                call.done.set_result(None)
        if ended and not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._wake_more)

    def _wake_more(self) -> None:
        self._waking = False
        self._wake()

    async def _perform(self, request: Request) -> None:
        """Perform one request. An error of the process itself (such as MemoryError) fails all waiting commands."""
        try:
            reply: Reply = None
            if isinstance(request, Pause):
                await asyncio.sleep(jittered(request.longest_ms) / 1000)
            else:
                loop = asyncio.get_running_loop()
                reply = await loop.run_in_executor(self._threads, self.follower.perform, request)
            self._machine.reply(request, reply, self._now())
            self._continue()
        except Exception as error:
            self._end_all(error)

    def _end_all(self, error: Exception) -> None:
        self._handed_in.clear()  # their callers learn that nothing was done
        for ticket in self._waiting:
            if not ticket.done:
                ticket.fail(RequestTimedOut(f"the commit ended early: {error!r}"))
        self._machine.ended.extend(self._waiting)
        self._machine.recover((), self._now())
        self._continue()

    def _now(self) -> Now:
        return Now(self.clock.now_ms(), self.clock.monotonic_ms(), new_id())
