"""Commits in a cluster that may have a coordinator: there while one is in force, else by the process itself.

Safety does not depend on the choice. A command keeps its id and `n0` wherever and however often it is sent, so it is
applied once (rule C2).
"""

from __future__ import annotations

import msgspec
import urllib3

from sparklog.chain.committer import DEFAULT_TIMEOUT_MS, Committer
from sparklog.core.commands import Submission
from sparklog.core.coordinators import Coordinator
from sparklog.core.errors import InvalidInput, Landed, NotController, OutcomeUnknown, SparklogError, TryAgain
from sparklog.core.readable import duration
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber, StoreId
from sparklog.host.dice import jittered
from sparklog.wire.errors import ErrorReply, raised
from sparklog.wire.jobs import JOBS, JobsReply, JobStanding
from sparklog.wire.messages import (
    CLUSTER,
    CONTENT_TYPE,
    HEARTBEAT,
    SUBMIT,
    ClusterReply,
    Heartbeat,
    SubmitReply,
    SubmitRequest,
)

CONNECT_S = 2.0
GRACE_MS = 5_000  # for the reply, beyond the time that the command itself has
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 20.0, 1_000.0

_encoder = msgspec.msgpack.Encoder()
_reply_decoder = msgspec.msgpack.Decoder(SubmitReply)
_jobs_decoder = msgspec.msgpack.Decoder(JobsReply)
_error_decoder = msgspec.msgpack.Decoder(ErrorReply)


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
                return self._send(known, submission, left_ms)
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
            self._post(state.coordinator, HEARTBEAT, Heartbeat(state.chain_id, store, registration), 0)

    def jobs(self) -> tuple[JobStanding, ...]:
        """What the coordinator in force says of the jobs that it schedules. Raises TryAgain, and what it answers."""
        known = self.follower.state.coordinator
        answer = self._request(known, "GET", JOBS, None, 0)
        try:
            return _jobs_decoder.decode(answer).jobs
        except msgspec.DecodeError as broken:
            raise _unreadable(known, broken) from broken

    def _send(self, known: Coordinator, submission: Submission, timeout_ms: int) -> CommandResult:
        """One request. Raises what the coordinator answers, and _NoReply."""
        state = self.follower.state
        request = SubmitRequest(state.chain_id, EntryNumber(state.n), submission, timeout_ms)
        answer = self._post(known, SUBMIT, request, timeout_ms)
        try:
            return _reply_decoder.decode(answer).result
        except msgspec.DecodeError as broken:
            raise _unreadable(known, broken) from broken

    def _post(self, known: Coordinator, path: str, request: msgspec.Struct, timeout_ms: int) -> bytes:
        """The body of the reply. Raises what the coordinator answers, and _NoReply."""
        return self._request(known, "POST", path, _encoder.encode(request), timeout_ms)

    def _request(self, known: Coordinator, method: str, path: str, body: bytes | None, timeout_ms: int) -> bytes:
        if self._pool is None:
            self._pool = urllib3.PoolManager(maxsize=32, retries=False)
        try:
            answer = self._pool.request(
                method,
                known.address + path,
                body=body,
                headers={"content-type": CONTENT_TYPE},
                timeout=urllib3.Timeout(connect=CONNECT_S, read=(timeout_ms + GRACE_MS) / 1000),
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise _NoReply(str(error)) from error
        except urllib3.exceptions.HTTPError as error:
            raise _NoReply(f"{type(error).__name__}: {error}", landed=Landed.UNKNOWN) from error
        return _body(answer, known)


class _NoReply(TryAgain):
    """The coordinator could not be reached, or did not answer."""


def _body(answer: urllib3.BaseHTTPResponse, known: Coordinator) -> bytes:
    if answer.headers.get("content-type") != CONTENT_TYPE:
        raise _NoReply(f"{known.address} answered {answer.status}, and not as a coordinator", landed=Landed.UNKNOWN)
    if answer.status == 200:
        return answer.data
    try:
        error = raised(_error_decoder.decode(answer.data))
    except msgspec.DecodeError as broken:
        raise _unreadable(known, broken) from broken
    raise error


def _unreadable(known: Coordinator, broken: msgspec.DecodeError) -> _NoReply:
    return _NoReply(f"the reply of {known.address} can't be read: {broken}", landed=Landed.UNKNOWN)


def _given_up(submission: Submission, known: Coordinator, timeout_ms: int, error: SparklogError) -> SparklogError:
    what = (
        f"the coordinator {known.name} at {known.address} did not commit command {submission.command_id} within "
        f"{duration(timeout_ms)}: {error.message}; if no coordinator of this cluster will come back, "
        "run 'sparklog coordinator resign --force'"
    )
    return OutcomeUnknown(f"{what}; the command may have landed") if submission.in_doubt else TryAgain(what)
