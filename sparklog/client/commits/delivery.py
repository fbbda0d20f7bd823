"""Decides, for one command sent to a coordinator, whether and when to send it again after an error. No I/O.

`client_committer.py` sends the command to the coordinator in force, or commits it in this process if none is in force.
"""

from __future__ import annotations

import msgspec

from sparklog.core.commands import Submission
from sparklog.core.coordination import Coordinator
from sparklog.core.describe.readable import duration
from sparklog.core.errors import Landed, NotController, OutcomeUnknown, SparklogError, TryAgain
from sparklog.core.pauses import longer
from sparklog.storage.http.calls import NoCoordinator, NoCoordinatorAnswers

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 20.0, 400.0
GRACE_MS = 5_000  # for a reply, beyond the time of the command itself
LOOKS_PER_SESSION = 3  # reads of the chain while a coordinator is silent: it writes an entry as often


class Delivery:
    """A command to be committed within a time limit. All times are of one monotonic clock.

    `submission`: the command to send. Its `in_doubt` becomes true once an attempt got no answer and may have landed.
    """

    def __init__(self, submission: Submission, timeout_ms: int, now_ms: int, *, may_commit_here: bool = True) -> None:
        """Begin a delivery, which may take `timeout_ms` from `now_ms` on.

        `may_commit_here`: true if this process can reach the metadata, not only coordinators.
        """
        self.submission = submission
        self._may_commit_here = may_commit_here
        self._timeout_ms = timeout_ms
        self._begun_ms = now_ms
        self._deadline_ms = now_ms + timeout_ms
        self._pause_ms = FIRST_PAUSE_MS
        self._silent: str | None = None  # the coordinator that did not answer the last attempt

    def left_ms(self, now_ms: int) -> int:
        """Time in ms until the command's deadline, at least 1."""
        return max(1, self._deadline_ms - now_ms)

    def waited_ms(self, now_ms: int) -> int:
        """Time in ms since the delivery began."""
        return now_ms - self._begun_ms

    def attempt_ms(self, session_ms: int, now_ms: int) -> int:
        """Time in ms that the coordinator may take to commit in one attempt: `left_ms`, at most one session."""
        return min(self.left_ms(now_ms), session_ms)

    def patience_ms(self, known: Coordinator, session_ms: int, now_ms: int) -> int:
        """Time in ms to wait for the reply to one attempt, before the chain is read to learn which coordinator leads.

        At most one session, because another coordinator may take over after a session of silence, and only the chain
        shows that. A third of a session if `known` did not answer the last attempt.
        """
        longest_ms = session_ms // LOOKS_PER_SESSION if known.name == self._silent else session_ms
        return min(self.left_ms(now_ms) + GRACE_MS, longest_ms)

    def failed(self, error: SparklogError, known: Coordinator, now_ms: int) -> float:
        """Note that an attempt at `known` ended with `error`. Returns the pause in ms before the next attempt.

        Raises `error` if another attempt can't help. If the command's time is over, raises OutcomeUnknown for a command
        in doubt, else TryAgain.
        """
        if not _may_pass(error):
            if self.submission.in_doubt and error.landed is Landed.NO:
                error.landed = Landed.UNKNOWN  # an earlier attempt may still be on its way
            raise error
        self._silent = known.name if isinstance(error, NoCoordinatorAnswers) else None
        if error.landed is not Landed.NO:
            self.submission = msgspec.structs.replace(self.submission, in_doubt=True)
        if now_ms >= self._deadline_ms:
            raise self._given_up(known, error) from error
        return self._next_pause_ms()

    def not_followed(self, error: SparklogError, known: Coordinator, now_ms: int) -> float:
        """Note that a read of the chain, made after `known` had failed, raised `error`.

        Returns the pause in ms before the next read. If `error` is not retriable, or the command's time is over, raises
        OutcomeUnknown for a command in doubt, else `error`.
        """
        if error.retriable and now_ms < self._deadline_ms:
            return self._next_pause_ms()
        if not self.submission.in_doubt:
            raise error
        raise self._given_up(known, error) from error

    def advice(self, known: Coordinator) -> str:
        """The text that says what to do if `known` does not come back: see the function `advice`."""
        return advice(known, may_commit_here=self._may_commit_here)

    def _next_pause_ms(self) -> float:
        pause_ms, self._pause_ms = self._pause_ms, longer(self._pause_ms, LONGEST_PAUSE_MS)
        return pause_ms

    def _given_up(self, known: Coordinator, error: SparklogError) -> SparklogError:
        command = self.submission.command_id
        if known.in_force:
            what = f"the coordinator {known.name} at {known.address} did not commit command {command}"
        else:
            what = f"no coordinator leads the cluster, so command {command} was not committed"
        text = f"{what} within {duration(self._timeout_ms)}: {error.message}; {self.advice(known)}"
        if self.submission.in_doubt:
            return OutcomeUnknown(f"{text}; the command may have landed", landed=Landed.UNKNOWN)
        return TryAgain(text)


def advice(known: Coordinator, *, may_commit_here: bool) -> str:
    """The text that says what to do if the coordinator `known` does not come back, or if none is in force.

    `may_commit_here`: true if this process can reach the metadata, not only coordinators.
    """
    if not known.in_force:
        return "start 'sparklog coordinator', or give --cluster the place of the metadata, to commit without one"
    place = "" if may_commit_here else " at the place of its metadata"
    return f"if no coordinator of this cluster will come back, run 'sparklog coordinator resign --force'{place}"


def _may_pass(error: SparklogError) -> bool:
    """True if, despite this error, a later attempt may succeed, at the same coordinator or the next one."""
    kinds = NotController | NoCoordinatorAnswers | NoCoordinator | OutcomeUnknown
    return isinstance(error, kinds) or error.code == TryAgain.code
