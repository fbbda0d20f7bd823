"""Commits commands: through the coordinator if one is in force, otherwise in this process.

A client that has only the addresses of coordinators can't commit by itself: while no coordinator is in force, it waits.
A command keeps its id and `n0` wherever and however often it is sent, so it is applied once, by a coordinator or here.
`delivery.py` decides when to send a command again; `shared_requests.py` sends the commands of several threads together.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from sparklog.chain.commit.committer import DEFAULT_TIMEOUT_MS, Committer
from sparklog.chain.follow.follower import Follower
from sparklog.client.commits.delivery import GRACE_MS, Delivery
from sparklog.client.commits.shared_requests import CommandOutcome, SharedRequests
from sparklog.core.commands import Submission
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.coordination import Author, Coordinator
from sparklog.core.describe.readable import duration
from sparklog.core.errors import InconsistentClusterId, InvalidInput, Landed, NotController, SparklogError, TlsFailed
from sparklog.core.purgatory import WaitCondition
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber, StoreId
from sparklog.host.dice import jittered
from sparklog.storage.http.calls import Calls, NoCoordinator, NoCoordinatorAnswers, body_of, decoded
from sparklog.storage.http.coordinator_addresses import Coordinators, all_failed
from sparklog.wire.error_messages import raised
from sparklog.wire.job_messages import JOBS, JobsReply, JobStanding
from sparklog.wire.messages import (
    CLUSTER,
    CONTENT_TYPE,
    HEARTBEAT,
    LEADS,
    MEMBER_HEARTBEAT,
    NO_LEADER,
    READYZ,
    STANDS_BY,
    SUBMIT,
    WAIT,
    Heartbeat,
    MemberHeartbeat,
    Outcome,
    SubmitReply,
    WaitReply,
    WaitRequest,
)

T = TypeVar("T")

FIRST_WARNING_MS: Final = 5_000  # a command that waits for this long is worth a warning
WARNINGS_APART_MS: Final = 30_000

_encoder = msgspec.msgpack.Encoder()
_log = logging.getLogger("sparklog")


class _EncodedRequest(msgspec.Struct, frozen=True):
    """The message `SubmitRequest` with commands that are already encoded. `seen`: the newest entry known here."""

    chain_id: str
    seen: EntryNumber
    commands: Sequence[msgspec.Raw]


class ClientCommitter(Committer):
    """Submits commands to the coordinator in force, or commits them in this process. Thread-safe."""

    def __init__(self, follower: Follower, author: Author, calls: Calls, given: Coordinators | None = None) -> None:
        """Create a committer.

        `given`: the coordinators by whose addresses alone this process knows the cluster, so that it can't commit by
        itself. None if this process can reach the metadata.
        """
        super().__init__(follower, author)
        self._calls = calls
        self._given = given
        self._requests = SharedRequests(self._send)
        self._warned_ms: int | None = None

    def submit(self, submission: Submission, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """Commit a command through the coordinator in force; without one, in this process as `Committer.submit` does.

        If the coordinator is silent, too busy or no longer leads, the command is sent again, to the coordinator that is
        in force then. Raises the errors of `Committer.submit`, TryAgain (no coordinator accepted the command in time;
        nothing was changed), AccessRefused.
        """
        clock = self.clock
        delivery = Delivery(submission, timeout_ms, clock.monotonic_ms(), may_commit_here=self._given is None)
        while True:
            state = self.follower.state
            known, session_ms = state.coordinator, effective_cluster(state.config).broker_session_timeout_ms
            if not known.in_force and self._given is None:
                return super().submit(delivery.submission, delivery.left_ms(clock.monotonic_ms()))
            try:
                now_ms = clock.monotonic_ms()
                attempt_ms = delivery.attempt_ms(session_ms, now_ms)
                patience_ms = delivery.patience_ms(known, session_ms, now_ms)
                return self._requests.submit(known, delivery.submission, attempt_ms, patience_ms)
            except SparklogError as error:
                pause_ms = delivery.failed(error, known, clock.monotonic_ms())
                self._warn_if_it_takes_long(delivery, known, error)
                self._follow_on(delivery, known, pause_ms)

    def commit_here(self, submission: Submission, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """Commit in this process, as `Committer.submit` does, even if a coordinator is in force.

        Raises InvalidInput if this process has only the addresses of coordinators.
        """
        if self._given is not None:
            raise InvalidInput(
                f"a process that knows the cluster by {', '.join(self._given.addresses)} can't commit by itself: "
                "give --cluster the place of the metadata, which 'sparklog cluster info' shows"
            )
        return super().submit(submission, timeout_ms)

    def heartbeat(self, store: StoreId, registration: int) -> None:
        """Report to the coordinator in force that the agent of this store is alive. If none is in force, do nothing.

        Raises TryAgain (no coordinator could be reached), and the coordinator's errors.
        """
        state = self.follower.state
        if state.coordinator.in_force:
            self._post(state.coordinator, HEARTBEAT, Heartbeat(state.chain_id, store, registration), GRACE_MS)

    def member_heartbeat(self, group: str, member_id: str) -> None:
        """Report to the coordinator in force that this member of a group is alive. If none is in force, do nothing.

        Raises TryAgain (no coordinator could be reached), GroupIdNotFound, UnknownMemberId.
        """
        state = self.follower.state
        if state.coordinator.in_force:
            heartbeat = MemberHeartbeat(state.chain_id, group, member_id)
            self._post(state.coordinator, MEMBER_HEARTBEAT, heartbeat, GRACE_MS)

    def wait(self, known: Coordinator, wanted: WaitCondition, seen: EntryNumber, longest_ms: int) -> WaitReply:
        """Ask the coordinator `known` to reply once `wanted` has happened, or after `longest_ms`; return the reply.

        The reply also comes once `wanted` can no longer happen, and may come earlier. `seen`: the newest entry known
        here. Raises the coordinator's errors, and TryAgain.
        """
        request = WaitRequest(self.follower.state.chain_id, seen, wanted, longest_ms)
        address, body = self._post(known, WAIT, request, longest_ms + GRACE_MS)
        return _reply(body, WaitReply, address)

    def jobs(self) -> tuple[JobStanding, ...]:
        """Ask the coordinator in force for the state of the jobs that it schedules, and of all others that have run.

        Raises NoCoordinatorAnswers, and the coordinator's errors.
        """
        known = self.follower.state.coordinator
        return _reply(self._ask(known.address, "GET", JOBS, GRACE_MS), JobsReply, known.address).jobs

    def answers_as_leader(self, known: Coordinator, patience_ms: int) -> bool:
        """True if the process at the address of `known` says that it leads, with the same epoch as `known`.

        Waits at most `patience_ms` for the reply. The request needs no token. Raises NoCoordinatorAnswers,
        NoCoordinator (another server is at this address), TlsFailed.
        """
        reply = self._calls.request("GET", known.address, READYZ, read_s=patience_ms / 1000)
        said = reply.data.decode("utf-8", "replace")
        if reply.status not in (200, 503) or not said.startswith((LEADS, STANDS_BY, NO_LEADER)):
            raise NoCoordinator(
                f"wanted a coordinator at {known.address}, found a server that answers {reply.status} to {READYZ}"
            )
        return said == f"{LEADS}, epoch {known.epoch}\n"

    def check_token(self, known: Coordinator, patience_ms: int) -> None:
        """Check that the coordinator `known` accepts this process's token. The token needs no rights for this request.

        Waits at most `patience_ms` for the reply. Raises AuthenticationFailed, and the errors of `jobs`.
        """
        self._ask(known.address, "GET", CLUSTER, patience_ms)

    def _follow_on(self, delivery: Delivery, known: Coordinator, pause_ms: float) -> None:
        """Pause about `pause_ms`, then read the chain, which shows which coordinator leads. Repeat until that works.

        `known`: the coordinator that failed. Raises the errors of `Delivery.not_followed`.
        """
        while True:
            self.clock.pause(jittered(pause_ms))
            try:
                self.follower.catch_up()
                return
            except SparklogError as error:
                pause_ms = delivery.not_followed(error, known, self.clock.monotonic_ms())
                self._warn_if_it_takes_long(delivery, known, error)

    def _warn_if_it_takes_long(self, delivery: Delivery, known: Coordinator, error: SparklogError) -> None:
        """Log why a command is not committed after 5 s or more. All threads together log at most one warning in 30 s.

        `error`: the error of the last attempt, at the coordinator `known`.
        """
        now_ms = self.clock.monotonic_ms()
        is_new = self._warned_ms is None or now_ms - self._warned_ms >= WARNINGS_APART_MS
        if delivery.waited_ms(now_ms) < FIRST_WARNING_MS or not is_new:
            return
        self._warned_ms = now_ms
        _log.warning(
            "not committed after %s, trying for %s more: %s; %s",
            duration(delivery.waited_ms(now_ms) // 1000 * 1000),
            duration(delivery.left_ms(now_ms) // 1000 * 1000),
            error.message,
            delivery.advice(known),
        )

    def _send(self, known: Coordinator, commands: Sequence[msgspec.Raw], patience_ms: int) -> Sequence[CommandOutcome]:
        """Send encoded commands in one request, wait at most `patience_ms`, and return their outcomes in order.

        Raises the errors of `_post`, and NoCoordinatorAnswers if the reply can't be read.
        """
        state = self.follower.state
        request = _EncodedRequest(state.chain_id, EntryNumber(state.n), commands)
        address, body = self._post(known, SUBMIT, request, patience_ms)
        reply = _reply(body, SubmitReply, address)
        if len(reply.outcomes) != len(commands):
            raise NoCoordinatorAnswers(
                f"{address} answered {len(reply.outcomes)} of {len(commands)} commands", landed=Landed.UNKNOWN
            )
        return [_outcome(outcome) for outcome in reply.outcomes]

    def _post(self, known: Coordinator, path: str, request: msgspec.Struct, patience_ms: int) -> tuple[str, bytes]:
        """Send a request to the coordinator `known`; return the address that answered, and the body of its reply.

        If `known` no longer leads or can't be reached, the addresses given to this client are asked in turn: `known`
        may have registered an address that is not valid here. Raises the coordinator's errors, NoCoordinatorAnswers,
        AccessRefused.
        """
        given = () if self._given is None else self._given.addresses
        addresses = dict.fromkeys((*([known.address] if known.in_force else []), *given))
        failures: list[SparklogError] = []
        for address in addresses:
            try:
                return address, self._ask(address, "POST", path, patience_ms, _encoder.encode(request))
            except SparklogError as error:
                if error.landed is not Landed.NO or not _may_another_lead(error):
                    raise
                failures.append(error)
        raise all_failed(failures)

    def _ask(self, address: str, method: str, path: str, patience_ms: int, body: bytes | None = None) -> bytes:
        headers = {"content-type": CONTENT_TYPE}
        reply = self._calls.request(method, address, path, read_s=patience_ms / 1000, body=body, headers=headers)
        try:
            return body_of(reply, address, path)
        except NoCoordinator as error:
            if error.landed is Landed.NO:
                raise
            raise NoCoordinatorAnswers(error.message, landed=error.landed) from error  # perhaps a proxy answered


def _reply(body: bytes, kind: type[T], address: str) -> T:
    """Decode a reply of type `kind` from `address`. Raises NoCoordinatorAnswers (outcome unknown) if that fails."""
    try:
        return decoded(body, kind, address)
    except NoCoordinator as error:
        raise NoCoordinatorAnswers(error.message, landed=Landed.UNKNOWN) from error


def _outcome(outcome: Outcome) -> CommandOutcome:
    if outcome.error is not None:
        return raised(outcome.error)
    if outcome.result is not None:
        return outcome.result
    return NoCoordinatorAnswers("the coordinator sent no outcome of the command", landed=Landed.UNKNOWN)


def _may_another_lead(error: SparklogError) -> bool:
    kinds = NotController | NoCoordinatorAnswers | NoCoordinator | InconsistentClusterId | TlsFailed
    return isinstance(error, kinds)
