"""One coordinator process: it follows the chain, claims when it is time, and commits for everybody while it leads.

No HTTP here: `app.py` calls `submit` and `cluster`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sparklog.chain.committer import new_command_id
from sparklog.chain.follower import Follower
from sparklog.coordinator.commit_loop import CommitLoop
from sparklog.coordinator.leadership import Leadership
from sparklog.coordinator.watching import Watching
from sparklog.core.commands import (
    AgentDown,
    Append,
    ClaimCoordination,
    Command,
    DropLagging,
    ResignCoordination,
    Submission,
)
from sparklog.core.config.storage import StorageSettings
from sparklog.core.coordinators import NO_COORDINATOR, Author
from sparklog.core.errors import InconsistentClusterId, NotController, SparklogError, StaleControllerEpoch, TryAgain
from sparklog.core.readable import counted
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber
from sparklog.host.clock import Clock, SystemClock
from sparklog.host.dice import new_id
from sparklog.log.stores import Stores, places_in
from sparklog.wire.messages import ClusterReply, Heartbeat, SubmitReply, SubmitRequest

THREADS = 16  # requests to the metadata store at once

Say = Callable[[str, str], None]  # an event in one word, and what happened


class Service:
    """A coordinator of the cluster that `follower` follows. `address` is where clients reach it.

    `queued_max`: commands that may wait at once; further ones are refused, so that memory and delays stay bounded.
    `stores` opens the stores for look-ups by time, in the platform's own way unless it is given.
    All methods are to be called in one event loop.
    """

    def __init__(
        self,
        follower: Follower,
        metadata: str,
        address: str,
        *,
        session_ms: int,
        queued_max: int,
        say: Say,
        clock: Clock | None = None,
        stores: Callable[[ClusterState], Stores] | None = None,
    ) -> None:
        self.follower = follower
        self.metadata = metadata
        self.stores = stores or (lambda state: Stores(places_in(state, metadata, StorageSettings())))
        self.leadership = Leadership(_drawn_name(), address, session_ms)
        self.queued_max = queued_max
        self.queued = 0
        self._say = say
        self._clock = clock or SystemClock()
        self._threads = ThreadPoolExecutor(THREADS, "sparklog-coordinator")
        self._commits: CommitLoop | None = None  # while this process leads
        self._watching: Watching | None = None  # while this process leads
        self._stopping = asyncio.Event()

    @property
    def leads(self) -> bool:
        """Whether this process coordinates the cluster, as far as it knows."""
        return self._commits is not None and self.leadership.leads

    # ---- requests -------------------------------------------------------------------------------

    async def submit(self, request: SubmitRequest) -> SubmitReply:
        """Commit a command of a client. Raises the command's errors, NotController, InconsistentClusterId, TryAgain."""
        self._check_chain(request.chain_id)
        commits = self._commits
        if commits is None or not self.leads:
            raise self._not_leading()
        if self.queued >= self.queued_max:
            raise TryAgain(
                f"{self.queued} commands wait already, which is the most that wait at once (queued.max.requests): "
                "send it again later"
            )
        self.queued += 1
        try:
            if self.follower.head.n < request.seen:
                await self._read()
            result = await commits.submit(request.submission, request.timeout_ms)
        finally:
            self.queued -= 1
        if self._watching is not None and isinstance(request.submission.command, Append):
            self._watching.written(request.submission.command, self._clock.monotonic_ms())
        return SubmitReply(EntryNumber(self.follower.head.n), result)

    def heartbeat(self, heartbeat: Heartbeat) -> ClusterReply:
        """The agent of a store is at work. Raises InconsistentClusterId, NotController."""
        self._check_chain(heartbeat.chain_id)
        if self._watching is None or not self.leads:
            raise self._not_leading()
        self._watching.heard(heartbeat.store, heartbeat.registration, self._clock.monotonic_ms())
        return self.cluster()

    def cluster(self) -> ClusterReply:
        """Which cluster this is."""
        state = self.follower.state
        return ClusterReply(state.chain_id, self.metadata, EntryNumber(state.n), state.coordinator)

    # ---- leading --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow and lead until `stop`; then resign, if this process leads."""
        while not self._stopping.is_set():
            asked_ms = self._clock.monotonic_ms()
            read_ms = await self._look()
            claim = None if read_ms is None else self.leadership.claim_due(read_ms)
            if claim is not None and await self._claim(claim):
                continue
            if read_ms is not None:
                await self._watch(asked_ms, read_ms)
            await self._wait(self.leadership.next_look_ms(self._clock.monotonic_ms()) if claim is None else None)
        await self._resign()
        self._threads.shutdown()

    def stop(self) -> None:
        """Stop cleanly. To be called in the event loop."""
        self._stopping.set()

    async def _look(self) -> int | None:
        """Read the chain to its end; the time at which that was done, or None if the chain can't be read now."""
        try:
            await self._read()
        except SparklogError as error:
            self._say("error", f"the chain can't be read: {error}")
            return None
        read_ms = self._clock.monotonic_ms()
        led = self.leads
        first = self.leadership.known is NO_COORDINATOR
        self.leadership.observe(self.follower.state.coordinator, read_ms)
        if first and self.leadership.known.in_force:
            self._say("stands-by", self._not_leading().message)
        if led and not self.leads:
            self._say("stands-by", f"this process leads no more: {self._not_leading().message}")
            self._commits = self._watching = None
        return read_ms

    async def _claim(self, claim: ClaimCoordination) -> bool:
        """Submit the claim, the first one or one to be seen alive; returns whether it landed."""
        commits = self._commits if self.leads else None
        if commits is None:
            author = Author("coordinator", self.leadership.name, claim.epoch)
            commits = CommitLoop(self.follower, author, self._threads, self._clock)
        try:
            await commits.submit(self._begun(claim), self.leadership.session_ms)
        except (StaleControllerEpoch, NotController) as error:
            self._say("stands-by", f"another process was faster: {error.message}")
            return False
        except SparklogError as error:
            self._say("error", f"the claim of epoch {claim.epoch} failed: {error}")
            return False
        if commits is not self._commits:
            self._watching = Watching(self.leadership.session_ms)
            self._say("leads", f"this process coordinates the cluster, with epoch {claim.epoch}")
        self._commits = commits
        self.leadership.observe(self.follower.state.coordinator, self._clock.monotonic_ms())
        return True

    async def _watch(self, asked_ms: int, read_ms: int) -> None:
        """Submit what has become of stores: agents that are silent, followers that lag."""
        commits, watching = self._commits, self._watching
        if commits is None or watching is None:
            return
        state = self.follower.state
        watching.observe(state, asked_ms, read_ms)
        for command in watching.due(state, read_ms):
            try:
                await commits.submit(self._begun(command), self.leadership.session_ms)
            except SparklogError as error:
                self._say("error", f"{type(command).__name__} failed: {error}")
            else:
                self._say("watch", _what(command))

    async def _resign(self) -> None:
        commits = self._commits
        if commits is None or not self.leads:
            return
        try:
            epoch = self.follower.state.coordinator.epoch
            await commits.submit(self._begun(ResignCoordination(epoch)), self.leadership.session_ms)
        except SparklogError as error:
            self._say("error", f"this process could not resign, another one takes over after a session: {error}")
        await commits.close()

    def _check_chain(self, chain_id: str) -> None:
        known = self.follower.state.chain_id
        if chain_id != known:
            raise InconsistentClusterId(f"this coordinator serves cluster {known}, the command is for {chain_id}")

    def _begun(self, command: Command) -> Submission:
        return Submission(new_command_id(), EntryNumber(max(self.follower.head.n, 0)), command)

    async def _read(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self.follower.catch_up)

    async def _wait(self, longest_ms: int | None) -> None:
        """Wait until it is time to look again, or `stop`. After a claim that failed: a moment."""
        wait_ms = self.leadership.session_ms / 20 if longest_ms is None else longest_ms
        try:
            await asyncio.wait_for(self._stopping.wait(), wait_ms / 1000)
        except TimeoutError:
            return

    def _not_leading(self) -> NotController:
        known = self.follower.state.coordinator
        if not known.in_force:
            return NotController("no process coordinates the cluster at the moment")
        return NotController(f"{known.name} at {known.address} coordinates the cluster, with epoch {known.epoch}")


def _what(command: Command) -> str:
    if isinstance(command, AgentDown):
        return f"the agent of store {command.store} is silent: its partitions have other leaders if they can"
    lagging = command.lagging if isinstance(command, DropLagging) else ()
    stores = sorted({store for replicas in lagging for store in replicas.stores})
    return f"{', '.join(stores)} lag in {counted(len(lagging), 'partition')}, and leave the ISR there"


def _drawn_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}-{new_id()[:8]}"
