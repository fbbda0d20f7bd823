"""Commits commands to the chain from an event loop: the shell that drives the machine of `chain/group_commit.py`.

The stores block, so what the machine asks for is performed by a few threads; everything else happens in the loop.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

from sparklog.chain.attempt import CommitCounts
from sparklog.chain.follower import Follower
from sparklog.chain.group import Ticket
from sparklog.chain.group_commit import GroupCommit
from sparklog.chain.requests import Now, Pause, Reply, Request
from sparklog.chain.snapshot_writer import SnapshotWriter
from sparklog.core.commands import Submission
from sparklog.core.coordinators import Author
from sparklog.core.errors import RequestTimedOut
from sparklog.core.records import CommandResult
from sparklog.host.clock import Clock
from sparklog.host.dice import jittered, new_id


class CommitLoop:
    """Submits commands to one chain under one author. To be used from one event loop only."""

    def __init__(self, follower: Follower, author: Author, threads: Executor, clock: Clock | None = None) -> None:
        self.follower = follower
        self.clock = clock or follower.clock
        self._machine = GroupCommit(
            author, follower.store.url, follower.head, self.clock.monotonic_ms(), follower.copies_wanted
        )
        self.snapshots = SnapshotWriter(follower)
        self._threads = threads
        self._waiting: dict[Ticket, asyncio.Future[None]] = {}
        self._performing: set[asyncio.Task[None]] = set()

    @property
    def counts(self) -> CommitCounts:
        """Counts of what was committed so far."""
        return self._machine.counts

    @property
    def author(self) -> Author:
        """The author of the entries."""
        return self._machine.author

    async def submit(self, submission: Submission, timeout_ms: int) -> CommandResult:
        """Commit one command and return its result, as `Committer.submit`, with the same errors.

        A caller who is cancelled leaves the command in the machine: it may land.
        """
        ticket = Ticket(submission, self.clock.monotonic_ms() + timeout_ms, timeout_ms)
        done = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        try:
            self._machine.learn(self.follower.head)
            self._machine.submit(ticket, self._now())
            self._go_on()
        except Exception as error:
            self._end_all(error)
        await done
        self.snapshots.write_if_due()
        return ticket.outcome()

    async def close(self) -> None:
        """Wait for what is still to be performed."""
        while self._performing:
            await asyncio.wait(self._performing)
        await asyncio.to_thread(self.snapshots.close)

    def _go_on(self) -> None:
        """Perform what the machine asks for, and wake those whose commands are done."""
        machine = self._machine
        if machine.head is not self.follower.head:
            self.follower.publish(machine.head)
        while machine.ended:
            done = self._waiting.pop(machine.ended.popleft(), None)
            if done is not None and not done.done():  # a caller may have been cancelled
                done.set_result(None)
        while machine.requests:
            task = asyncio.create_task(self._perform(machine.requests.popleft()))
            self._performing.add(task)
            task.add_done_callback(self._performing.discard)

    async def _perform(self, request: Request) -> None:
        """Perform one request. An error of the process itself, as of no memory, ends all commands that wait."""
        try:
            reply: Reply = None
            if isinstance(request, Pause):
                await asyncio.sleep(jittered(request.longest_ms) / 1000)
            else:
                loop = asyncio.get_running_loop()
                reply = await loop.run_in_executor(self._threads, self.follower.perform, request)
            self._machine.reply(request, reply, self._now())
            self._go_on()
        except Exception as error:
            self._end_all(error)

    def _end_all(self, error: Exception) -> None:
        for ticket in self._waiting:
            if not ticket.done:
                ticket.fail(RequestTimedOut(f"the commit ended early: {error!r}"))
        self._machine.ended.extend(self._waiting)
        self._machine.recover((), self._now())
        self._go_on()

    def _now(self) -> Now:
        return Now(self.clock.now_ms(), self.clock.monotonic_ms(), new_id())
