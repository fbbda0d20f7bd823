"""Commits commands to the chain from threads: the shell that drives the machine of `group_commit`.

It has no thread of its own: callers that wait for a result perform the requests of the machine. So it can be used after
a fork, unless a call was running, and an idle process costs nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice

from sparklog.chain.chain_requests import Now, Request
from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.commit.commit_counts import CommitCounts
from sparklog.chain.commit.group_commit import GroupCommit
from sparklog.chain.follow.follower import Follower
from sparklog.chain.snapshot.snapshot_writer import SnapshotWriter
from sparklog.core.commands import Command, Submission
from sparklog.core.coordination import Author
from sparklog.core.errors import RequestTimedOut
from sparklog.core.records import CommandResult
from sparklog.core.types import CommandId
from sparklog.host.clock import Clock
from sparklog.host.dice import new_id

DEFAULT_TIMEOUT_MS = 120_000
AWAKE = 4  # callers that are woken at once: hundreds of threads that wait for the interpreter slow each other down


class Committer:
    """Submits commands to one chain. Thread-safe."""

    def __init__(self, follower: Follower, author: Author, clock: Clock | None = None) -> None:
        self.follower = follower
        self.author = author
        self.clock = clock or follower.clock
        self.snapshots = SnapshotWriter(follower)
        self._machine = GroupCommit(
            author, follower.store.url, follower.head, self.clock.monotonic_ms(), follower.mirrors_wanted
        )
        self._turn = threading.Lock()  # held to call the machine
        self._waiting: dict[Ticket, threading.Lock] = {}  # each caller's gate: locked while there is nothing to do
        self._idle: dict[Ticket, threading.Lock] = {}  # the gates of callers that perform nothing
        self._to_wake: deque[threading.Lock] = deque()  # gates of callers whose tickets are done

    @property
    def counts(self) -> CommitCounts:
        """Counts of the commits so far."""
        return self._machine.counts

    def begin(self, command: Command) -> Submission:
        """Catch up, then return a submission of the command with a new id. Its n0 is the newest chain position."""
        self.follower.catch_up()  # an idle process must not begin below FLOOR
        return Submission(new_command_id(), self.follower.state.n0, command)

    def submit(self, submission: Submission, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """Commit one command and return its result. A command that was committed before gets the same result again.

        The command may try to win a slot for `timeout_ms`. The call may last as long as the longest timeout of all
        commands in its entry, or in an entry that it waits for. If it raises the command's own error or
        RequestTimedOut, nothing was changed. If it raises OutcomeUnknown, look the command up by its id, or submit the
        same `Submission` again with `in_doubt`. If it raises WriteLost, an election has given up records that the
        application wrote earlier, and nothing was written.
        """
        ticket = Ticket(submission, self.clock.monotonic_ms() + timeout_ms, timeout_ms)
        self._drive(ticket)
        self.snapshots.write_if_due()
        return ticket.outcome()

    def close(self) -> None:
        """Wait for the end of a snapshot that is being written."""
        self.snapshots.close()

    def _drive(self, ticket: Ticket) -> None:
        """Submit the ticket, then perform the machine's requests, also for other callers, until the ticket is done."""
        gate = threading.Lock()
        gate.acquire()
        try:
            with self._turn:
                self._waiting[ticket] = gate
                self._machine.learn(self.follower.head)
                self._machine.submit(ticket, self._now())
                request, done = self._next_request(ticket), ticket.done
            while request is not None or not done:
                if request is None:
                    # Without a timeout: an interrupt just after a timed wait could leave the lock taken forever.
                    gate.acquire()
                    if ticket.done:
                        self._open_next()
                        break
                    with self._turn:
                        request, done = self._next_request(ticket), ticket.done
                    continue
                reply = self.follower.perform(request)  # even if the ticket is done by now: no other caller does it
                with self._turn:
                    self._machine.reply(request, reply, self._now())
                    if self._machine.head is not self.follower.head:
                        self.follower.publish(self._machine.head)
                    request, done = self._next_request(ticket), ticket.done
            self._waiting.pop(ticket, None)
        except BaseException as error:
            self._leave_in_turn(ticket, error)
            if ticket.error is not None:
                raise ticket.error from error
            raise

    def _next_request(self, ticket: Ticket) -> Request | None:
        """Take the request that this caller is to perform. None if its ticket is done, or if no request is left.

        If none is left, the caller must wait at its gate, a lock. This method also opens the gates of callers whose
        tickets are done, and one gate of an idle caller for each request that is left.
        """
        ended, requests, idle = self._machine.ended, self._machine.requests, self._idle
        if ended:
            self._wake()
        request = None
        if not ticket.done:
            if requests:
                request = requests.popleft()
            else:
                idle[ticket] = self._waiting[ticket]
        for other in list(islice(idle, len(requests))):
            _open(idle.pop(other))
        return request

    def _wake(self) -> None:
        """Open the gates of up to `AWAKE` callers whose tickets are done. Each opens one more when it continues."""
        ended = self._machine.ended
        while ended:
            gate = self._idle.pop(ended.popleft(), None)
            if gate is not None:
                self._to_wake.append(gate)
        for _ in range(AWAKE):
            self._open_next()

    def _open_next(self) -> None:
        """Open the gate of the next caller whose ticket is done. That caller calls this again when it continues."""
        try:
            gate = self._to_wake.popleft()
        except IndexError:
            return
        _open(gate)

    def _leave_in_turn(self, ticket: Ticket, error: BaseException) -> None:
        """Call `_leave` while holding `_turn`. If an interrupt hits this thread meanwhile, start again.

        If `_leave` were not completed, the other callers would wait forever.
        """
        try:
            with self._turn:
                self._leave(ticket, error)
        except BaseException as second:
            if not isinstance(second, Exception):
                self._leave_in_turn(ticket, second)
            raise

    def _leave(self, ticket: Ticket, error: BaseException) -> None:
        """Remove a caller that `error` ends early, and restart the machine with the tickets of the other callers."""
        self._waiting.pop(ticket, None)
        self._idle.pop(ticket, None)
        if isinstance(error, Exception) and not ticket.done and (ticket.sent or ticket.submission.in_doubt):
            ticket.fail(_ended_early(error))
        waiting = list(self._waiting.items())  # a copy: callers that are done leave meanwhile
        try:
            self._machine.recover([other for other, _ in waiting], self._now())
        except Exception as second:  # out of memory, perhaps: an error is better than waiting forever
            for other, _ in waiting:
                if not other.done:
                    other.fail(_ended_early(second))
            self._machine.recover((), self._now())
        finally:
            # Wake all callers: the error may have hit a caller that was about to wake others.
            for callers in (self._machine.ended, self._to_wake, self._idle):
                callers.clear()
            for _, gate in waiting:
                _open(gate)

    def _now(self) -> Now:
        return Now(self.clock.now_ms(), self.clock.monotonic_ms(), new_id())


def new_command_id() -> CommandId:
    return CommandId(new_id())


def _ended_early(error: Exception) -> RequestTimedOut:
    return RequestTimedOut(f"the commit ended early: {error!r}")


def _open(gate: threading.Lock) -> None:
    if gate.locked():
        gate.release()
