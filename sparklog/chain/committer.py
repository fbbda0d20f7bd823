"""Commits commands to the chain: all that wait go into one entry (group commit).

There is no thread of its own: of the callers that wait, one commits for all. So it survives a fork between
calls, and an idle process costs nothing.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from sparklog.chain import snapshot
from sparklog.chain.clock import Clock, Deadline, SystemClock, pauses
from sparklog.chain.command_body import SLICES_INLINE, write_body
from sparklog.chain.entry import Author, Entry, check_readable
from sparklog.chain.follower import Follower
from sparklog.chain.slots import Lost, Won, claim_slot
from sparklog.chain.void_marks import Voided
from sparklog.core.apply import apply_command, result_of
from sparklog.core.commands import Append, Command, Submission
from sparklog.core.decide import Decision, decide
from sparklog.core.errors import (
    InconsistentClusterId,
    InvalidInput,
    Landed,
    OutcomeUnknown,
    RequestTimedOut,
    SparklogError,
)
from sparklog.core.readable import duration
from sparklog.core.records import Appended, AppliedCommand, At, CommandResult, Record
from sparklog.core.types import CommandId, EntryNumber

SNAPSHOT_EVERY = 1_000  # entries
GROUP_SLICES = 1_000  # an entry takes commands until they have this many slices
DEFAULT_TIMEOUT_MS = 120_000
IDLE_MS = 10_000  # after so long without an entry, a look whether it is still the same chain


@dataclass(slots=True)
class _Waiting:
    submission: Submission
    deadline: Deadline
    result: CommandResult | None = None
    error: Exception | None = None
    decided: AppliedCommand | None = None  # what it leads to in the entry being tried
    expanded: Record | None = None  # its append, if the entry names it by reference
    sent: bool = False  # an entry with it was sent, and nobody knows yet who won the slot

    @property
    def done(self) -> bool:
        return self.result is not None or self.error is not None


@dataclass(slots=True)
class CommitCounts:
    """What the committer did so far. `group_sizes[k]`: entries that held k commands (F-02)."""

    entries: int = 0
    lost_slots: int = 0
    group_sizes: dict[int, int] = field(default_factory=dict)


class Committer:
    """Submits commands to one chain. Safe for threads."""

    def __init__(self, follower: Follower, author: Author, clock: Clock | None = None) -> None:
        self.follower = follower
        self.author = author
        self.clock = clock or SystemClock()
        self.counts = CommitCounts()
        self._queue: list[_Waiting] = []
        self._queue_lock = threading.Lock()
        self._commit_lock = threading.Lock()
        self._snapshot_thread: threading.Thread | None = None
        self._known_ms = self.clock.monotonic_ms()  # when the slot behind the last entry was known to be this chain's

    def begin(self, command: Command) -> Submission:
        """Give a command its identity: an id, and the newest chain position."""
        self.follower.catch_up()  # an idle process must not begin below FLOOR
        return Submission(new_command_id(), self.position(), command)

    def position(self) -> EntryNumber:
        """The chain position that a command begun now has read: the number of the newest entry."""
        return EntryNumber(max(self.follower.state.n, 0))

    def submit(self, submission: Submission, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """Commit one command and return what it led to; a repeat of a known one returns the same.

        `timeout_ms` is what the command has for winning a slot, once it is its turn: a call that shares an entry with
        others, or waits for theirs, may last as long as the longest of them. Raises the command's own error (nothing
        was changed), OutcomeUnknown (look it up by its id, or submit the same `Submission` again with `in_doubt`),
        RequestTimedOut (nothing was changed).
        """
        waiting = _Waiting(submission, Deadline(self.clock, timeout_ms))
        try:
            with self._queue_lock:
                self._queue.append(waiting)
            # Not with a timeout: an interrupt just after such an `acquire` would leave the lock taken for ever.
            with self._commit_lock:
                while not waiting.done:
                    group = self._take()
                    if not group:
                        raise OutcomeUnknown(
                            f"command {submission.command_id} was taken by a thread that was interrupted"
                        )
                    self._commit(group)
        except BaseException:
            with self._queue_lock:  # nobody may commit for a caller who was told that it failed
                self._queue = [each for each in self._queue if each is not waiting]
            raise
        self._snapshot_if_due()
        if waiting.error is not None:
            raise waiting.error
        if waiting.result is None:
            raise AssertionError("a command that is done has a result or an error")
        return waiting.result

    def close(self) -> None:
        """Wait for a snapshot that is being written."""
        thread = self._snapshot_thread
        if thread is not None:
            thread.join()

    def _take(self) -> list[_Waiting]:
        """The longest-waiting commands that together fit one entry: at least one."""
        with self._queue_lock:
            count, slices = 0, 0
            for each in self._queue:
                command = each.submission.command
                own = len(command.slices) if isinstance(command, Append) else 1
                if count and slices + min(own, SLICES_INLINE) > GROUP_SLICES:
                    break
                count, slices = count + 1, slices + min(own, SLICES_INLINE)
            taken, self._queue = self._queue[:count], self._queue[count:]
            return taken

    def _commit(self, group: Sequence[_Waiting]) -> None:
        """Bring every command of the group to a result or an error."""
        try:
            with self.follower.lock:
                self._commit_locked(group)
        except SparklogError as error:
            _fail(group, error)
        except BaseException as error:
            ended = RequestTimedOut(f"the commit ended early: {error!r}")
            ended.__cause__ = error
            _fail(group, ended)
            if not isinstance(error, Exception):
                raise

    def _commit_locked(self, group: Sequence[_Waiting]) -> None:
        """Until all are done: decide those that are open, and send what that leads to as one entry."""
        self._check_chain()
        caught_up = False
        for pause_ms in pauses():
            open_now = [each for each in group if not each.done]
            if not open_now:
                return
            at = At(EntryNumber(self.follower.state.n + 1), self.clock.now_ms())
            refused = self._decide_all(open_now, at)
            if refused and not caught_up:
                self.follower.catch_up()  # a refusal, too, is decided on the newest state
                caught_up = True
                continue
            for each, error in refused:
                each.error = error
            decided = [each for each in open_now if each.decided is not None]
            if decided:
                caught_up = self._send(decided, at)
                if not caught_up and self.counts.lost_slots % 8 == 7:
                    self.clock.pause(min(pause_ms, 50))

    def _check_chain(self) -> None:
        """Refuse to write into another cluster: its chain, being shorter, would get an entry behind a gap.

        Raises InconsistentClusterId. A process that keeps writing is not told that the place was wiped.
        """
        if self.follower.state.n < 0 or self.clock.monotonic_ms() - self._known_ms < IDLE_MS:
            return
        self.follower.catch_up()
        if not self.follower.is_same_chain():
            raise InconsistentClusterId(
                f"cluster {self.follower.state.chain_id} is no longer at {self.follower.store.url}: it was "
                "deleted, and maybe created again; connect again"
            )
        self._known_ms = self.clock.monotonic_ms()

    def _send(self, decided: Sequence[_Waiting], at: At) -> bool:
        """Try to win slot `at.n` for what was decided. Whether the state was brought up to date after that."""
        won = False
        for each in decided:
            each.sent = True
        try:
            outcome = claim_slot(self.follower.store, self._entry(decided, at), _latest(decided))
            won = isinstance(outcome, Won)
            self._known_ms = self.clock.monotonic_ms()
            if isinstance(outcome, Won):
                self._acknowledge(decided, outcome, at)
            else:
                for each in decided:
                    each.sent = False
                self._follow(outcome, at)
                _expire(decided)
        except Voided:
            for each in decided:
                each.sent = False
                each.submission = msgspec.structs.replace(each.submission, in_doubt=True)
            self.follower.reload()
            self.follower.catch_up()
            return True
        except SparklogError as error:
            for each in decided:
                each.sent = won  # else the error itself says whether it landed
            _fail(decided, error)
        return False

    def _decide_all(self, group: Sequence[_Waiting], at: At) -> list[tuple[_Waiting, SparklogError]]:
        """Decide each on the state after those before it. Fills in `result` of known ones; returns the refused.

        What is neither, nor leads to records, rests on commands of the group that have not landed yet: it stays open.
        """
        state = self.follower.state
        overlay = state.fork() if len(group) > 1 else state
        refused = []
        ahead = False  # whether the overlay holds what has not landed
        for each in group:
            each.decided = each.expanded = None
            try:
                decision = decide(overlay, each.submission, at)
                if decision.records:
                    each.decided = self._applied(each, decision)
                elif ahead:
                    continue
                elif decision.known is not None:
                    each.result = decision.known
                else:  # the state is as wanted already: nothing is to be written
                    each.result = CommandResult(EntryNumber(state.n), each.submission.n0, state.time_ms)
            except SparklogError as error:
                if not ahead:
                    refused.append((each, error))
                continue
            except (TypeError, ValueError, AttributeError) as error:  # types are not checked when a command is made
                wrong = InvalidInput(f"command {each.submission.command_id} holds a value of the wrong type: {error}")
                wrong.__cause__ = error
                refused.append((each, wrong))
                continue
            if each.decided is not None and overlay is not state:
                apply_command(overlay, _with_expanded(each), at)
                ahead = True
        return refused

    def _applied(self, each: _Waiting, decision: Decision) -> AppliedCommand:
        submission, records = each.submission, decision.records
        if isinstance(submission.command, Append) and len(submission.command.slices) > SLICES_INLINE:
            appended = records[0]
            if not isinstance(appended, Appended):
                raise AssertionError("an append leads to Appended")
            check_readable(AppliedCommand(submission.command_id, submission.n0, records))
            try:
                reference = write_body(
                    self.follower.store,
                    submission.command_id,
                    submission.n0,
                    submission.command,
                    appended,
                    each.deadline,
                )
            except SparklogError as error:
                if submission.in_doubt and error.landed is Landed.NO:  # this attempt; an earlier one may have
                    raise _in_doubt(submission.command_id, error) from error
                raise
            each.expanded, records = appended, (reference,)
        applied = AppliedCommand(submission.command_id, submission.n0, records)
        check_readable(applied)
        return applied

    def _entry(self, decided: Sequence[_Waiting], at: At) -> Entry:
        chain_id = self.follower.state.chain_id
        commands = tuple(each.decided for each in decided if each.decided is not None)
        if not chain_id:
            chain_id = getattr(commands[0].records[0], "chain_id", "")
        nonce = uuid.uuid4().hex
        return Entry(chain_id, at.n, self.author, nonce, self.follower.entry_hash, at.time_ms, commands)

    def _acknowledge(self, decided: Sequence[_Waiting], won: Won, at: At) -> None:
        expanded = {each.submission.command_id: each.expanded for each in decided if each.expanded is not None}
        self.follower.apply_body(at.n, won.body, expanded)
        for each in decided:
            if each.decided is not None:
                each.result = result_of(each.decided, at)
        self.counts.entries += 1
        self.counts.group_sizes[len(decided)] = self.counts.group_sizes.get(len(decided), 0) + 1

    def _follow(self, lost: Lost, at: At) -> None:
        self.counts.lost_slots += 1
        self.follower.apply_body(at.n, lost.body)
        self.follower.catch_up()

    def _snapshot_if_due(self) -> None:
        if self.follower.state.n - self.follower.snapshot_n < SNAPSHOT_EVERY:
            return
        with self._queue_lock:
            if self._snapshot_thread is not None and self._snapshot_thread.is_alive():
                return
            thread = threading.Thread(target=self._try_snapshot, name="sparklog-snapshot")
            try:
                thread.start()
            except RuntimeError as error:  # no more threads here: the commit is done all the same
                _no_snapshot(error)
            else:
                self._snapshot_thread = thread

    def _try_snapshot(self) -> None:
        try:
            self.write_snapshot()
        except Exception as error:  # nothing is lost: the next committer tries again
            _no_snapshot(error)

    def write_snapshot(self) -> int:
        """Write a snapshot of the state as it is now, unless there is one; returns its entry number."""
        with self.follower.lock:
            if self.follower.state.n == self.follower.snapshot_n:
                return self.follower.snapshot_n
            prepared = snapshot.prepare(self.follower.state, self.follower.entry_hash, dict(self.follower.known_chunks))
        snapshot.write(self.follower.store, prepared)
        with self.follower.lock:
            if prepared.manifest.n > self.follower.snapshot_n:
                self.follower.snapshot_n = prepared.manifest.n
                self.follower.known_chunks = snapshot.known_chunks(prepared.manifest)  # older ones may be deleted
        return prepared.manifest.n


def new_command_id() -> CommandId:
    """A command id that nobody drew before."""
    return CommandId(uuid.uuid4().hex)


def _no_snapshot(error: Exception) -> None:
    logging.getLogger("sparklog").warning("no snapshot of the metadata chain was written: %s", error)


def _in_doubt(command_id: CommandId, error: SparklogError) -> OutcomeUnknown:
    return OutcomeUnknown(f"command {command_id} may have landed, and what came of it could not be read: {error}")


def _with_expanded(each: _Waiting) -> AppliedCommand:
    if each.decided is None:
        raise AssertionError("only a decided command is applied")
    if each.expanded is None:
        return each.decided
    return msgspec.structs.replace(each.decided, records=(each.expanded,))


def _latest(group: Sequence[_Waiting]) -> Deadline:
    """The deadline of an entry: nobody's append may fail early because another caller was in more of a hurry."""
    return max((each.deadline for each in group), key=lambda each: each.left_ms())


def _expire(group: Sequence[_Waiting]) -> None:
    """Give up those that ran out of time while others won every slot."""
    late = [each for each in group if each.deadline.passed()]
    for each in late:
        _fail(
            [each],
            RequestTimedOut(
                f"command {each.submission.command_id} found every slot taken for {duration(each.deadline.timeout_ms)}"
            ),
        )


def _fail(group: Sequence[_Waiting], error: SparklogError) -> None:
    """End those that are open with `error`, or with OutcomeUnknown where an earlier attempt may have landed."""
    for each in group:
        if each.done:
            continue
        each.error = error
        maybe = each.sent or each.submission.in_doubt
        if (maybe and error.landed is Landed.NO) or isinstance(error, OutcomeUnknown):
            each.error = _in_doubt(each.submission.command_id, error)
            each.error.__cause__ = error
