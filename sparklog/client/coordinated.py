"""Commits in a cluster that may have a coordinator: there while one is in force, else by the process itself.

Safety does not depend on the choice. A command keeps its id and `n0` wherever and however often it is sent, so it is
applied once (rule C2).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import urllib3

from sparklog.chain.committer import DEFAULT_TIMEOUT_MS, Committer
from sparklog.chain.follower import Follower
from sparklog.client.group_submit import GRACE_MS, CommandOutcome, GroupSubmit, NoReply
from sparklog.core.commands import Submission
from sparklog.core.coordinators import Author, Coordinator
from sparklog.core.errors import InvalidInput, Landed, NotController, OutcomeUnknown, SparklogError, TryAgain
from sparklog.core.readable import duration
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber, StoreId
from sparklog.host.clock import Clock
from sparklog.host.dice import jittered
from sparklog.wire.errors import ErrorReply, raised
from sparklog.wire.messages import (
    CLUSTER,
    CONTENT_TYPE,
    HEARTBEAT,
    SUBMIT,
    ClusterReply,
    Heartbeat,
    Outcome,
    SubmitReply,
)

CONNECT_S = 2.0
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 20.0, 1_000.0

_encoder = msgspec.msgpack.Encoder()
_reply_decoder = msgspec.msgpack.Decoder(SubmitReply)
_error_decoder = msgspec.msgpack.Decoder(ErrorReply)


class _EncodedRequest(msgspec.Struct, frozen=True):
    """A SubmitRequest whose commands are encoded already."""

    chain_id: str
    seen: EntryNumber
    commands: Sequence[msgspec.Raw]


def is_coordinator(url: str) -> bool:
    """Whether this is the address of a coordinator, and not the place of a cluster's metadata."""
    return url.startswith(("http://", "https://"))


def asked(url: str) -> ClusterReply:
    """What the coordinator at this address says of its cluster. Raises InvalidInput, TryAgain."""
    parts = urllib3.util.parse_url(url)
    if parts.auth is not None:
        raise InvalidInput(f"the address of a coordinator has no user and no password, found one: {parts.scheme}://…")
    if parts.path not in (None, "/") or parts.query is not None:
        raise InvalidInput(f"the address of a coordinator is like http://host:7400, found {url}")
    try:
        timeout = urllib3.Timeout(connect=CONNECT_S, read=GRACE_MS / 1000)
        answer = urllib3.request("GET", url.rstrip("/") + CLUSTER, timeout=timeout, retries=False)
    except urllib3.exceptions.HTTPError as error:
        raise TryAgain(f"no coordinator answers at {url}: {error}") from error
    if answer.status != 200 or answer.headers.get("content-type") != CONTENT_TYPE:
        raise InvalidInput(f"wanted a coordinator at {url}, found a server that answers {answer.status} to {CLUSTER}")
    try:
        return msgspec.msgpack.decode(answer.data, type=ClusterReply)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"wanted a coordinator at {url}, its reply can't be read: {error}") from error


class Coordinated(Committer):
    """Submits commands to the coordinator in force, or commits them here. Safe for threads."""

    _pool: urllib3.PoolManager | None = None

    def __init__(self, follower: Follower, author: Author, clock: Clock | None = None) -> None:
        super().__init__(follower, author, clock)
        self._group = GroupSubmit(self._send)

    def submit(self, submission: Submission, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """As `Committer.submit`. One that is silent, too busy or leads no more is asked again, or the next one.

        Raises also TryAgain (no coordinator could be reached; nothing was changed).
        """
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        pause_ms = FIRST_PAUSE_MS
        while True:
            known = self.follower.state.coordinator
            left_ms = max(1, deadline_ms - self.clock.monotonic_ms())
            if not known.in_force:
                return super().submit(submission, left_ms)
            try:
                return self._group.submit(known, submission, left_ms)
            except SparklogError as error:
                if not (isinstance(error, NotController | OutcomeUnknown) or error.code == TryAgain.code):
                    raise
                if error.landed is not Landed.NO:
                    submission = msgspec.structs.replace(submission, in_doubt=True)
                if self.clock.monotonic_ms() >= deadline_ms:
                    raise _given_up(submission, known, timeout_ms, error) from error
            self.clock.pause(jittered(pause_ms))
            pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)
            self.follower.catch_up()

    def commit_here(self, submission: Submission, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """As `Committer.submit`, whoever coordinates the cluster: the chain takes it from anybody."""
        return super().submit(submission, timeout_ms)

    def heartbeat(self, store: StoreId, registration: int) -> None:
        """Tell the coordinator in force, if there is one, that the agent of this store is at work.

        Raises TryAgain, and what the coordinator answers.
        """
        state = self.follower.state
        if state.coordinator.in_force:
            self._post(state.coordinator, HEARTBEAT, Heartbeat(state.chain_id, store, registration), GRACE_MS)

    def _send(self, known: Coordinator, commands: Sequence[msgspec.Raw], patience_ms: int) -> Sequence[CommandOutcome]:
        """One request; returns the outcomes of its commands. Raises what the coordinator answers, and NoReply."""
        state = self.follower.state
        request = _EncodedRequest(state.chain_id, EntryNumber(state.n), commands)
        answer = self._post(known, SUBMIT, request, patience_ms)
        try:
            reply = _reply_decoder.decode(answer)
        except msgspec.DecodeError as broken:
            raise _unreadable(known, broken) from broken
        if len(reply.outcomes) != len(commands):
            raise NoReply(
                f"{known.address} answered {len(reply.outcomes)} of {len(commands)} commands", landed=Landed.UNKNOWN
            )
        return [_outcome(each) for each in reply.outcomes]

    def _post(self, known: Coordinator, path: str, request: msgspec.Struct, patience_ms: int) -> bytes:
        """The body of the reply. Raises what the coordinator answers, and NoReply."""
        if self._pool is None:
            self._pool = urllib3.PoolManager(maxsize=32, retries=False)
        try:
            answer = self._pool.request(
                "POST",
                known.address + path,
                body=_encoder.encode(request),
                headers={"content-type": CONTENT_TYPE},
                timeout=urllib3.Timeout(connect=CONNECT_S, read=patience_ms / 1000),
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise NoReply(str(error)) from error
        except urllib3.exceptions.HTTPError as error:
            raise NoReply(f"{type(error).__name__}: {error}", landed=Landed.UNKNOWN) from error
        return _body(answer, known)


def _outcome(outcome: Outcome) -> CommandOutcome:
    if outcome.error is not None:
        return raised(outcome.error)
    if outcome.result is not None:
        return outcome.result
    return NoReply("the coordinator did not say what became of the command", landed=Landed.UNKNOWN)


def _body(answer: urllib3.BaseHTTPResponse, known: Coordinator) -> bytes:
    if answer.headers.get("content-type") != CONTENT_TYPE:
        raise NoReply(f"{known.address} answered {answer.status}, and not as a coordinator", landed=Landed.UNKNOWN)
    if answer.status == 200:
        return answer.data
    try:
        error = raised(_error_decoder.decode(answer.data))
    except msgspec.DecodeError as broken:
        raise _unreadable(known, broken) from broken
    raise error


def _unreadable(known: Coordinator, broken: msgspec.DecodeError) -> NoReply:
    return NoReply(f"the reply of {known.address} can't be read: {broken}", landed=Landed.UNKNOWN)


def _given_up(submission: Submission, known: Coordinator, timeout_ms: int, error: SparklogError) -> SparklogError:
    what = (
        f"the coordinator {known.name} at {known.address} did not commit command {submission.command_id} within "
        f"{duration(timeout_ms)}: {error.message}; if no coordinator of this cluster will come back, "
        "run 'sparklog coordinator resign --force'"
    )
    return OutcomeUnknown(f"{what}; the command may have landed") if submission.in_doubt else TryAgain(what)
