"""One command on its way to the coordinator in force, without I/O: what an answer means, and when to send it again.

`coordinated.py` sends: to the coordinator of the newest state that it has read, or to the chain itself without one.
"""

from __future__ import annotations

import msgspec

from sparklog.core.commands import Submission
from sparklog.core.coordination import Coordinator
from sparklog.core.describe.readable import duration
from sparklog.core.errors import Landed, NotController, OutcomeUnknown, SparklogError, TryAgain
from sparklog.storage.http.calls import NoCoordinator, NoCoordinatorAnswers

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 20.0, 400.0
GRACE_MS = 5_000  # for a reply, beyond the time that the command itself has
LOOKS_PER_SESSION = 3  # at a coordinator that did not answer once, as often as one in force writes an entry


class Delivery:
    """A command with `timeout_ms` to get an answer, from `now_ms` on. Times are those of a monotonic clock.

    `submission` is what to send: in doubt, once an attempt may have landed without anybody hearing of it.
    """

    def __init__(self, submission: Submission, timeout_ms: int, now_ms: int, *, may_commit_here: bool = True) -> None:
        """`may_commit_here`: whether the process can reach the place of the metadata."""
        self.submission = submission
        self._may_commit_here = may_commit_here
        self._timeout_ms = timeout_ms
        self._begun_ms = now_ms
        self._deadline_ms = now_ms + timeout_ms
        self._pause_ms = FIRST_PAUSE_MS
        self._silent: str | None = None  # the coordinator that did not answer the last attempt

    def left_ms(self, now_ms: int) -> int:
        """How long the command may still take."""
        return max(1, self._deadline_ms - now_ms)

    def waited_ms(self, now_ms: int) -> int:
        """How long the command has been waiting."""
        return now_ms - self._begun_ms

    def attempt_ms(self, session_ms: int, now_ms: int) -> int:
        """How long the coordinator may try in one attempt: at most a session of `session_ms`."""
        return min(self.left_ms(now_ms), session_ms)

    def patience_ms(self, known: Coordinator, session_ms: int, now_ms: int) -> int:
        """How long to wait for the reply to one attempt, before the chain is asked who leads.

        A coordinator that has been silent for a session may lead no more, and nobody else would tell the caller. The
        next one claims about then. So if `known` was silent once, it is asked for shorter times.
        """
        longest_ms = session_ms // LOOKS_PER_SESSION if known.name == self._silent else session_ms
        return min(self.left_ms(now_ms) + GRACE_MS, longest_ms)

    def failed(self, error: SparklogError, known: Coordinator, now_ms: int) -> float:
        """What was sent to `known` ended with `error`. Returns for how long to wait at most, to send it again then.

        Raises what the caller is to hear: the error of the command itself, or that its time is over.
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
        """The chain could not be read on after `known` had failed. Returns and raises as `failed`."""
        if error.retriable and now_ms < self._deadline_ms:
            return self._next_pause_ms()
        if not self.submission.in_doubt:
            raise error
        raise self._given_up(known, error) from error

    def advice(self, known: Coordinator) -> str:
        """`advice`, for the process that sends this command."""
        return advice(known, may_commit_here=self._may_commit_here)

    def _next_pause_ms(self) -> float:
        pause_ms, self._pause_ms = self._pause_ms, min(2 * self._pause_ms, LONGEST_PAUSE_MS)
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
    """Return what to do if `known` does not come back. `may_commit_here`: this process can reach the metadata."""
    if not known.in_force:
        return "start 'sparklog coordinator', or give --cluster the place of the metadata, to commit without one"
    place = "" if may_commit_here else " at the place of its metadata"
    return f"if no coordinator of this cluster will come back, run 'sparklog coordinator resign --force'{place}"


def _may_pass(error: SparklogError) -> bool:
    """Whether a coordinator may take the command later: the same one, or the next."""
    kinds = NotController | NoCoordinatorAnswers | NoCoordinator | OutcomeUnknown
    return isinstance(error, kinds) or error.code == TryAgain.code
