"""Commits in a cluster that may have a coordinator: there while one is in force, else by the process itself.

A client that has only the addresses of coordinators can't commit by itself: while nobody coordinates, it waits. Safety
does not depend on the choice. A command keeps its id and `n0` wherever and however often it is sent, so it is applied
once (rule C2).
"""

from __future__ import annotations

import msgspec
import urllib3

from sparklog.chain.committer import DEFAULT_TIMEOUT_MS, Committer
from sparklog.chain.follower import Follower
from sparklog.core.commands import Submission
from sparklog.core.coordinators import Author, Coordinator
from sparklog.core.errors import (
    InconsistentClusterId,
    InvalidInput,
    Landed,
    NotController,
    OutcomeUnknown,
    SparklogError,
    StoreUnavailable,
    TryAgain,
)
from sparklog.core.readable import duration
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber, StoreId
from sparklog.host.dice import jittered
from sparklog.storage.http.coordinators import (
    CONNECT_S,
    Coordinators,
    NoCoordinator,
    NoCoordinatorAnswers,
    all_failed,
    body_of,
    connections,
    no_reply,
)
from sparklog.wire.messages import CONTENT_TYPE, HEARTBEAT, SUBMIT, Heartbeat, SubmitReply, SubmitRequest

GRACE_MS = 5_000  # for the reply, beyond the time that the command itself has
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 20.0, 1_000.0

_encoder = msgspec.msgpack.Encoder()
_reply_decoder = msgspec.msgpack.Decoder(SubmitReply)


class Coordinated(Committer):
    """Submits commands to the coordinator in force, or commits them here. Safe for threads."""

    _pool: urllib3.PoolManager | None = None

    def __init__(self, follower: Follower, author: Author, given: Coordinators | None = None) -> None:
        """`given`: the addresses that the client has instead of access to the metadata, or None if it has access."""
        super().__init__(follower, author)
        self._given = given

    def submit(self, submission: Submission, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """As `Committer.submit`. One that is silent, too busy or leads no more is asked again, or the next one.

        Raises also TryAgain (no coordinator could be reached; nothing was changed).
        """
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        pause_ms = FIRST_PAUSE_MS
        while True:
            known = self.follower.state.coordinator
            left_ms = max(1, deadline_ms - self.clock.monotonic_ms())
            if not known.in_force and self._given is None:
                return super().submit(submission, left_ms)
            try:
                return self._send(known, submission, left_ms)
            except SparklogError as error:
                if not _may_pass(error):
                    raise
                if error.landed is not Landed.NO:
                    submission = msgspec.structs.replace(submission, in_doubt=True)
                if self.clock.monotonic_ms() >= deadline_ms:
                    raise self._given_up(submission, known, timeout_ms, error) from error
            self.clock.pause(jittered(pause_ms))
            pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)
            try:
                self.follower.catch_up()
            except StoreUnavailable:  # the chain may be there again before the time is over
                continue

    def commit_here(self, submission: Submission, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """As `Committer.submit`, whoever coordinates the cluster: the chain takes it from anybody.

        Raises InvalidInput if this process has only the addresses of coordinators.
        """
        if self._given is not None:
            raise InvalidInput(
                f"a process that knows the cluster by {', '.join(self._given.addresses)} can't commit by itself: "
                "give --cluster the place of the metadata, which 'sparklog cluster info' shows"
            )
        return super().submit(submission, timeout_ms)

    def heartbeat(self, store: StoreId, registration: int) -> None:
        """Tell the coordinator in force, if there is one, that the agent of this store is at work.

        Raises TryAgain, and what the coordinator answers.
        """
        state = self.follower.state
        if state.coordinator.in_force:
            self._post(state.coordinator, HEARTBEAT, Heartbeat(state.chain_id, store, registration), 0)

    def _send(self, known: Coordinator, submission: Submission, timeout_ms: int) -> CommandResult:
        """Raises what a coordinator answers, and the errors of `_post`."""
        state = self.follower.state
        request = SubmitRequest(state.chain_id, EntryNumber(state.n), submission, timeout_ms)
        body = self._post(known, SUBMIT, request, timeout_ms)
        try:
            return _reply_decoder.decode(body).result
        except msgspec.DecodeError as broken:
            text = f"the reply of a coordinator can't be read: {broken}"
            raise NoCoordinatorAnswers(text, landed=Landed.UNKNOWN) from broken

    def _post(self, known: Coordinator, path: str, request: msgspec.Struct, timeout_ms: int) -> bytes:
        """The body of the reply of the coordinator in force, or of one at the given addresses.

        They are asked if it can't be reached, perhaps because its address is none here, or if it leads no more. Raises
        what it answers, and NoCoordinatorAnswers.
        """
        given = () if self._given is None else self._given.addresses
        addresses = dict.fromkeys((*([known.address] if known.in_force else []), *given))
        failures: list[SparklogError] = []
        for address in addresses:
            try:
                return self._post_to(address, path, request, timeout_ms)
            except SparklogError as error:
                if error.landed is not Landed.NO or not _may_another_lead(error):
                    raise
                failures.append(error)
        raise all_failed(failures)

    def _post_to(self, address: str, path: str, request: msgspec.Struct, timeout_ms: int) -> bytes:
        if self._pool is None:
            self._pool = connections()
        try:
            reply = self._pool.request(
                "POST",
                address + path,
                body=_encoder.encode(request),
                headers={"content-type": CONTENT_TYPE},
                timeout=urllib3.Timeout(connect=CONNECT_S, read=(timeout_ms + GRACE_MS) / 1000),
            )
        except urllib3.exceptions.HTTPError as error:
            raise no_reply(address, error) from error
        try:
            return body_of(reply, address, path)
        except NoCoordinator as error:
            if error.landed is Landed.NO:
                raise
            raise NoCoordinatorAnswers(error.message, landed=error.landed) from error  # of a proxy, perhaps

    def _given_up(
        self, submission: Submission, known: Coordinator, timeout_ms: int, error: SparklogError
    ) -> SparklogError:
        if known.in_force:
            what = f"the coordinator {known.name} at {known.address} did not commit command {submission.command_id}"
            advice = "if no coordinator of this cluster will come back, run 'sparklog coordinator resign --force'" + (
                " at the place of its metadata" if self._given is not None else ""
            )
        else:
            what = f"nobody coordinates the cluster, so command {submission.command_id} was not committed"
            advice = "start 'sparklog coordinator', or give --cluster the place of the metadata, to commit without one"
        text = f"{what} within {duration(timeout_ms)}: {error.message}; {advice}"
        return OutcomeUnknown(f"{text}; the command may have landed") if submission.in_doubt else TryAgain(text)


def _may_pass(error: SparklogError) -> bool:
    """Whether a coordinator may take the command later: the same one, or the next."""
    kinds = NotController | NoCoordinatorAnswers | NoCoordinator | OutcomeUnknown
    return isinstance(error, kinds) or error.code == TryAgain.code


def _may_another_lead(error: SparklogError) -> bool:
    kinds = NotController | NoCoordinatorAnswers | NoCoordinator | InconsistentClusterId
    return isinstance(error, kinds)
