"""One coordinator process: follows the chain, claims when a claim is due, and commits for all clients while it leads.

`control.py` decides the steps, this module performs them. HTTP is elsewhere: `http/app.py` calls `Service`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.commit.commit_counts import CommitCounts
from sparklog.chain.commit.committer import new_command_id
from sparklog.chain.follow.follower import Follower
from sparklog.client.stores.store_look import StoreLook
from sparklog.coordinator.http.waiting_requests import ClientLeft, Waits
from sparklog.coordinator.leading.checkpointing import Checkpointing
from sparklog.coordinator.leading.commit_loop import CommitLoop
from sparklog.coordinator.leading.control import (
    CommitAll,
    CommitOwn,
    ControlMachine,
    CoordinatorControl,
    LogEvent,
    ReadChain,
    Rest,
    StateNow,
    Step,
)
from sparklog.coordinator.leading.leadership import Leadership
from sparklog.coordinator.leading.scheduling import Scheduling
from sparklog.coordinator.watching.activity import Activity
from sparklog.coordinator.watching.store_looks import StoreLooks
from sparklog.core.commands import Command, Submission
from sparklog.core.config.storage import StorageSettings
from sparklog.core.coordination import Author, check_chain
from sparklog.core.errors import (
    NotController,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.core.machine import Ended, resume
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, StoreId
from sparklog.host.clock import Clock, SystemClock
from sparklog.host.dice import new_id
from sparklog.log.cluster_stores import Stores, addresses_in
from sparklog.maintenance.job_scheduler import JobRunner
from sparklog.wire.error_messages import error_reply
from sparklog.wire.job_messages import JobsReply
from sparklog.wire.messages import (
    ClusterReply,
    Heartbeat,
    MemberHeartbeat,
    Outcome,
    SubmitReply,
    SubmitRequest,
    WaitReply,
    WaitRequest,
)

_OF_STORAGE = {error.code for error in (StoreUnavailable, StoreFull, StoreReadOnly, StoreAccessDenied)}
THREADS = 16  # requests to the metadata store at once

T = TypeVar("T")


class Service:
    """A coordinator of the cluster that `follower` follows. Call all methods in one event loop.

    `metadata`: the address of the metadata; `address`: the address of this process for clients. `queued_max`: see
    `CoordinatorControl`. `jobs` runs the jobs that are due while this process leads; if it is None, no jobs run.
    `stores` opens the stores, to write checkpoints, to check the stores and to find offsets by time. By default they
    are opened without any storage settings.
    """

    def __init__(
        self,
        follower: Follower,
        metadata: str,
        address: str,
        *,
        session_ms: int,
        queued_max: int,
        say: LogEvent,
        clock: Clock | None = None,
        jobs: JobRunner | None = None,
        stores: Callable[[ClusterState], Stores] | None = None,
    ) -> None:
        self.follower = follower
        self.metadata = metadata
        self.stores = stores or (lambda state: Stores(addresses_in(state, metadata, StorageSettings())))
        self.control = CoordinatorControl(Leadership(_drawn_name(), address, session_ms), queued_max, say)
        self.activity = Activity()
        self._clock = clock or SystemClock()
        self.schedule = Scheduling(follower, jobs, say, self._clock)
        self.checkpoints = Checkpointing(follower, self.stores, say)
        self._looks = StoreLooks(self.stores, follower.store)
        self._threads = ThreadPoolExecutor(THREADS, "sparklog-coordinator")
        self._commits: CommitLoop | None = None  # of the newest epoch that this process has claimed
        self._stopping = asyncio.Event()
        self.waits = Waits(follower, self._read)

    @property
    def leads(self) -> bool:
        """True if this process coordinates the cluster, as far as it knows."""
        return self.control.leads

    async def submit(self, request: SubmitRequest) -> SubmitReply:
        """Commit the commands of a client. Once all are done, reply with an outcome for each.

        Raises NotController, InconsistentClusterId, InvalidInput (too many commands), and the store's error if the
        chain can't be read. After any of these errors, no command was submitted.
        """
        began_ms = self._clock.monotonic_ms()
        reply = await self._performed(self.control.submit(request, self._moment()))
        took_ms = self._clock.monotonic_ms() - began_ms
        for outcome in reply.outcomes:
            if outcome.error is None:
                self.activity.latency.add(took_ms)
            else:
                self.activity.refusals[outcome.error.code] += 1
        self.activity.storage_failure = storage_failure(reply, self.activity.storage_failure)
        return reply

    def heartbeat(self, heartbeat: Heartbeat) -> ClusterReply:
        """Note that a store's agent is alive. Return `cluster()`. Raises InconsistentClusterId, NotController."""
        self.control.heartbeat(heartbeat, self._moment())
        return self.cluster()

    def member_heartbeat(self, heartbeat: MemberHeartbeat) -> ClusterReply:
        """Note that a group's member is alive. Return `cluster()`.

        Raises the errors of `CoordinatorControl.member_heartbeat`.
        """
        self.control.member_heartbeat(heartbeat, self._moment())
        return self.cluster()

    async def wait(self, request: WaitRequest, client_left: ClientLeft) -> WaitReply:
        """Reply once the chain has the wanted state, on a leader or a standby.

        Raises InconsistentClusterId, and the errors of `Waits.wait`.
        """
        check_chain(request.chain_id, self.follower.state.chain_id)
        return await self.waits.wait(request, client_left)

    def cluster(self) -> ClusterReply:
        """The cluster's id, the address of its metadata, its coordinator, and the newest entry that was read."""
        state = self.follower.state
        return ClusterReply(state.chain_id, self.metadata, EntryNumber(state.n), state.coordinator)

    async def read_up_to(self, seen: EntryNumber) -> None:
        """Read the chain to its end if this process has not read the entry `seen` yet."""
        if self.follower.head.n < seen:
            await self._read()

    def commit_counts(self) -> CommitCounts:
        """Counts of the commits of this process since it began to lead; zero on a standby."""
        if self._commits is None or not self.leads:
            return CommitCounts()
        return self._commits.counts.copy()

    def heard_ms_ago(self) -> dict[StoreId, int]:
        """The milliseconds since this process last heard of each store. Empty on a standby."""
        watching = self.control.watching
        return {} if watching is None else watching.heard_ms_ago(self._clock.monotonic_ms())

    def look_at_stores(self) -> None:
        """Begin to check each store and the metadata in the background; see `StoreLooks.begin`."""
        self._looks.begin(self.follower.state, self._clock.monotonic_ms())

    def looks_at_stores(self) -> Mapping[StoreId, StoreLook]:
        """The result of the newest check of each store and of the metadata; see `StoreLooks.newest`."""
        return self._looks.newest(self._clock.monotonic_ms())

    def jobs(self) -> JobsReply:
        """The last run of each job, and its next run by the schedule of this process. Raises NotController."""
        self.control.check_leads(self.follower.state)
        return JobsReply(EntryNumber(self.follower.head.n), self.schedule.standing())

    async def run(self) -> None:
        """Follow the chain, and lead when no other process does, until `stop`; then resign, if this process leads.

        Return once jobs, waiting requests and commits have ended.
        """
        await self._performed(self.control.run(self._moment()))
        await self.schedule.close()
        self.waits.close()
        if self._commits is not None:
            await self._commits.close()
        self._threads.shutdown()

    def stop(self) -> None:
        """Begin to stop: jobs and checkpoints end, then `run` resigns and returns. To be called in the event loop."""
        self.control.stop()
        self.schedule.end()
        self.checkpoints.end()
        self._stopping.set()

    # ---- steps of the control -------------------------------------------------------------------

    async def _performed(self, steps: ControlMachine[T]) -> T:
        """Perform the steps of a machine, one after the other, and return the machine's result."""
        reply: object = None
        try:
            while True:
                led = self.leads
                try:
                    step = resume(steps, reply)
                finally:
                    self._led_until_now(led)
                if isinstance(step, Ended):
                    return step.outcome
                try:
                    reply = await self._perform(step)
                    if isinstance(step, CommitOwn):
                        self.activity.storage_failure = ""
                except SparklogError as error:
                    reply = error
                    if isinstance(step, CommitOwn) and error.code in _OF_STORAGE:
                        self.activity.storage_failure = str(error)
        finally:
            steps.close()

    def _led_until_now(self, led: bool) -> None:
        """Begin or end the work that only the leader does, if `leads` has changed; `led` is its former value."""
        if self.leads and not led:
            self.schedule.begin()
            self.checkpoints.begin()
        elif led and not self.leads:
            self.checkpoints.end()
            self.schedule.end()
            self.waits.end_all()

    async def _perform(self, step: Step) -> object:
        match step:
            case ReadChain():
                await self._read()
            case CommitOwn():
                await self._loop(step.author).submit(self._begun(step.command), step.timeout_ms)
            case CommitAll():
                commands = [(sent.submission, sent.timeout_ms) for sent in step.commands]
                tickets = await self._loop(step.author).submit_all(commands)
                return self._moment(), [_outcome(ticket) for ticket in tickets]
            case Rest():
                await self._rest(step.longest_ms)
        return self._moment()

    def _loop(self, author: Author) -> CommitLoop:
        """The commit loop of this author, created if the author's epoch is new.

        Raises NotController if this process has claimed a newer epoch since.
        """
        commits = self._commits
        if commits is None or commits.author.epoch < author.epoch:
            commits = self._commits = CommitLoop(self.follower, author, self._threads, self._clock)
        if commits.author != author:
            raise NotController(f"{author.name} no longer coordinates under epoch {author.epoch}")
        return commits

    def _begun(self, command: Command) -> Submission:
        return Submission(new_command_id(), self.follower.state.n0, command)

    async def _read(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self.follower.catch_up)

    async def _rest(self, longest_ms: int) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), longest_ms / 1000)
        except TimeoutError:
            return

    def _moment(self) -> StateNow:
        return StateNow(self.follower.state, self._clock.monotonic_ms())


def _outcome(ticket: Ticket) -> Outcome:
    try:
        return Outcome(ticket.outcome())
    except SparklogError as error:
        return Outcome(error=error_reply(error))


def storage_failure(reply: SubmitReply, before: str) -> str:
    """Return "" if any command in the reply was applied, else the text of the reply's first storage error.

    If no command was applied and there is no storage error, return `before`, the text for the previous reply.
    """
    errors = [outcome.error for outcome in reply.outcomes]
    if None in errors:
        return ""
    failed = (f"{error.code}: {error.message}" for error in errors if error is not None and error.code in _OF_STORAGE)
    return next(failed, before)


def _drawn_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}-{new_id()[:8]}"
