"""Decides each step of a coordinator, without I/O. `service.py` performs the steps in an event loop.

`run` and `submit` are machines (`core/machine.py`) that yield steps. The process has one `run`, and one `submit` for
each request of a client. The reply to a step, unless it is an error:

    ReadChain     read the chain to its end -> StateNow
    CommitOwn     commit a command of the coordinator itself, under its epoch -> StateNow
    CommitAll     commit the commands of a client -> (StateNow, an outcome for each)
    Rest          wait, at most until `stop` is called -> StateNow
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sparklog.coordinator.leading.leadership import Leadership
from sparklog.coordinator.leading.silence import Watching
from sparklog.core.commands import (
    AgentDown,
    Append,
    ClaimCoordination,
    Command,
    DropLagging,
    LeaveGroup,
    ResignCoordination,
)
from sparklog.core.coordination import NO_COORDINATOR, Author, check_chain
from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    InvalidInput,
    NotController,
    SparklogError,
    StaleControllerEpoch,
    TryAgain,
    UnsupportedVersion,
)
from sparklog.core.groups.membership import unknown_member
from sparklog.core.lookup import existing_group
from sparklog.core.machine import Machine, answered
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber
from sparklog.wire.error_messages import error_reply
from sparklog.wire.messages import (
    MAX_COMMANDS,
    Heartbeat,
    MemberHeartbeat,
    Outcome,
    SubmitReply,
    SubmitRequest,
    SubmittedCommand,
)

FAILURES_PER_SESSION = 20  # after a failure, the next attempt comes after 1/20 of a session

LogEvent = Callable[[str, str], None]  # an event in one word, and a message


@dataclass(frozen=True, slots=True)
class StateNow:
    """The newest state that the process has read, and the time of its monotonic clock."""

    state: ClusterState
    now_ms: int


@dataclass(frozen=True, slots=True)
class ReadChain:
    """Read the chain to its end."""


@dataclass(frozen=True, slots=True)
class CommitOwn:
    """Commit a command of the coordinator itself under this author. The command's n0 is the newest entry read."""

    author: Author
    command: Command
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class CommitAll:
    """Commit the commands of one request of a client, under this author."""

    author: Author
    commands: tuple[SubmittedCommand, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """Wait for at most this long; a call of `stop` ends the wait."""

    longest_ms: int


Step = ReadChain | CommitOwn | CommitAll | Rest
T = TypeVar("T")
ControlMachine = Machine[Step, Any, T]


class CoordinatorControl:
    """Controls one coordinator process: leads or stands by, admits requests, and watches agents and members.

    `queued_max`: clients' commands that may wait at once. Further ones are refused, so memory and delays stay bounded.
    """

    def __init__(self, leadership: Leadership, queued_max: int, say: LogEvent) -> None:
        self.leadership = leadership
        self.queued_max = queued_max
        self.queued = 0
        self.watching: Watching | None = None  # while this process leads
        self.is_outdated = False  # the chain has an entry of a format that this version can't read
        self._say = say
        self._stopping = False
        self._has_ended = False  # it serves no requests any more, even if its resignation failed

    @property
    def leads(self) -> bool:
        """True if this process coordinates the cluster, as far as it knows.

        False if the chain has an entry of a format that this version can't read, and once `run` has ended.
        """
        return self.leadership.leads and not self.is_outdated and not self._has_ended

    def stop(self) -> None:
        """End `run` once its current step is done."""
        self._stopping = True

    # ---- requests -------------------------------------------------------------------------------

    def submit(self, request: SubmitRequest, moment: StateNow) -> ControlMachine[SubmitReply]:
        """Commit a client's commands, and return an outcome for each.

        The outcome of commands beyond `queued_max` is TryAgain. Raises NotController, InconsistentClusterId,
        InvalidInput (more than MAX_COMMANDS), and errors of reading the chain.
        """
        self._admit(request.chain_id, moment.state)
        wanted = request.commands
        if len(wanted) > MAX_COMMANDS:
            raise InvalidInput(f"a request has at most {MAX_COMMANDS} commands, found {len(wanted)}")
        taken = wanted[: max(0, self.queued_max - self.queued)]
        self.queued += len(taken)
        try:
            author = self._author(self.leadership.known.epoch)
            if moment.state.n < request.seen:
                yield from answered(ReadChain())
            outcomes: Sequence[Outcome]
            moment, outcomes = yield from answered(CommitAll(author, taken))
        finally:
            self.queued -= len(taken)
        self._observe(moment)  # the next claim is due a third of a session after this entry, not after a later look
        if self.watching is not None:
            for sent, outcome in zip(taken, outcomes, strict=True):
                if outcome.result is not None and isinstance(sent.submission.command, Append):
                    self.watching.written(sent.submission.command, moment.now_ms)
        refused = [Outcome(error=error_reply(self._too_busy()))] * (len(wanted) - len(taken))
        return SubmitReply(EntryNumber(moment.state.n), (*outcomes, *refused))

    def heartbeat(self, heartbeat: Heartbeat, moment: StateNow) -> None:
        """Note that the agent of a store is alive. Raises InconsistentClusterId, NotController."""
        self._admit(heartbeat.chain_id, moment.state)
        if self.watching is not None:
            self.watching.heard(heartbeat.store, heartbeat.registration, moment.now_ms)

    def member_heartbeat(self, heartbeat: MemberHeartbeat, moment: StateNow) -> None:
        """Note that a member of a group is alive. Raises the errors of `heartbeat`.

        Raises GroupIdNotFound if there is no such group, FencedInstanceId if a newer member of the same instance has
        taken the member's place, and UnknownMemberId if the group lacks the member for another reason.
        """
        self._admit(heartbeat.chain_id, moment.state)
        group = existing_group(moment.state, heartbeat.group)
        if group.member(heartbeat.member_id) is None:
            raise unknown_member(group, heartbeat.member_id)
        if self.watching is not None:
            self.watching.heard_member(heartbeat.group, heartbeat.member_id, moment.now_ms)

    def _admit(self, chain_id: str, state: ClusterState) -> None:
        """Raise InconsistentClusterId if a request is for another cluster, NotController if this process stands by."""
        check_chain(chain_id, state.chain_id)
        self.check_leads(state)

    def check_leads(self, state: ClusterState) -> None:
        """Raise NotController if this process does not lead."""
        if not self.leads:
            raise _not_leading(state)

    def _too_busy(self) -> TryAgain:
        return TryAgain(
            f"{self.queued_max} commands wait already, which is the limit (queued.max.requests): send it again later"
        )

    # ---- leading --------------------------------------------------------------------------------

    def run(self, moment: StateNow) -> ControlMachine[None]:
        """Follow the chain, and lead when no other process does, until `stop`; then resign, if this process leads."""
        retry_ms = self.leadership.session_ms // FAILURES_PER_SESSION
        while not self._stopping:
            asked_ms = moment.now_ms
            reply: StateNow | SparklogError = yield ReadChain()
            if isinstance(reply, SparklogError):
                if isinstance(reply, UnsupportedVersion):  # only processes of a newer sparklog may decide now
                    self.is_outdated, self.watching = True, None
                    self._say("stands-by", f"this process can't read the chain, and claims nothing: {reply}")
                else:
                    self._say("error", f"the chain can't be read: {reply}")
                moment = yield Rest(retry_ms)
                continue
            moment = reply
            self._observe(moment, is_newest=True)
            claim = self.leadership.claim_due(moment.now_ms)
            if claim is not None:
                claimed = yield from self._claim(claim)
                if claimed is not None:
                    moment = claimed
                    continue
            moment = yield from self._watch(asked_ms, moment)
            moment = yield Rest(retry_ms if claim is not None else self.leadership.next_look_ms(moment.now_ms))
        yield from self._resign()
        self._has_ended = True

    def _observe(self, moment: StateNow, *, is_newest: bool = False) -> None:
        """Note which coordinator the state names, and begin or stop to lead accordingly.

        `is_newest`: the chain was read to its end, which shows that this version can read all entries.
        """
        known, led = self.leadership.known, self.leads
        self.is_outdated = self.is_outdated and not is_newest
        self.leadership.observe(moment.state.coordinator, moment.now_ms)
        if self.leads and not led:
            self.watching = Watching(self.leadership.session_ms)
            epoch = self.leadership.known.epoch
            self._say("leads", f"this process coordinates the cluster, with epoch {epoch}")
        elif led and not self.leads:
            self.watching = None
            self._say("stands-by", f"this process no longer leads: {_not_leading(moment.state).message}")
        elif known is NO_COORDINATOR and self.leadership.known.in_force:
            self._say("stands-by", _not_leading(moment.state).message)

    def _claim(self, claim: ClaimCoordination) -> ControlMachine[StateNow | None]:
        """Submit a claim, to become the leader or to show that the leader is alive.

        Return the moment after its commit; None if it was refused, failed, or got no answer.
        """
        reply: StateNow | SparklogError
        reply = yield CommitOwn(self._author(claim.epoch), claim, self.leadership.session_ms)
        if isinstance(reply, (StaleControllerEpoch, NotController)):
            self._say("stands-by", f"another process was faster: {reply.message}")
            return None
        if isinstance(reply, SparklogError):
            self._say("error", f"the claim of epoch {claim.epoch} failed: {reply}")
            return None
        self._observe(reply)
        return reply

    def _watch(self, asked_ms: int, moment: StateNow) -> ControlMachine[StateNow]:
        """Submit the commands of `Watching.due`: about silent agents, silent members, and replicas that lag.

        `asked_ms`: when the read of the chain began that led to `moment`. Returns the moment after the last commit.
        """
        if self.watching is None:
            return moment
        self.watching.observe(moment.state, asked_ms, moment.now_ms)
        author = self._author(self.leadership.known.epoch)
        # One after the other: meanwhile a store may be heard of.
        for command in self.watching.due(moment.state, moment.now_ms):
            reply: StateNow | SparklogError = yield CommitOwn(author, command, self.leadership.session_ms)
            if isinstance(reply, SparklogError):
                self._say("error", f"{type(command).__name__} failed: {reply}")
            else:
                moment = reply
                self._say("watch", _what(command))
        return moment

    def _resign(self) -> ControlMachine[None]:
        if not self.leads:
            return
        epoch = self.leadership.known.epoch
        reply = yield CommitOwn(self._author(epoch), ResignCoordination(epoch), self.leadership.session_ms)
        if isinstance(reply, SparklogError):
            self._say("error", f"this process could not resign; another one takes over after a session: {reply}")

    def _author(self, epoch: int) -> Author:
        return Author("coordinator", self.leadership.name, epoch)


def _not_leading(state: ClusterState) -> NotController:
    known = state.coordinator
    if not known.in_force:
        return NotController("no process coordinates the cluster at the moment")
    return NotController(f"{known.name} at {known.address} coordinates the cluster, with epoch {known.epoch}")


def _what(command: Command) -> str:
    if isinstance(command, AgentDown):
        return f"the agent of store {command.store} is silent: its partitions get other leaders if possible"
    if isinstance(command, LeaveGroup):
        return f"member {command.member_id} of group {command.group} is silent: other members get its partitions"
    lagging = command.lagging if isinstance(command, DropLagging) else ()
    stores = sorted({store for replicas in lagging for store in replicas.stores})
    return f"{', '.join(stores)} lag in {counted(len(lagging), 'partition')} and leave the ISR there"
