"""Chooses the waiting commands that go into the next entry, and decides them. Nothing here waits or does I/O.

Commands are decided one after the other, on a draft of the next state. After each decision the draft is changed, so the
next command is decided on the state that the earlier ones lead to. If the entry wins its slot, the draft becomes the
head. Otherwise the draft is dropped, and the commands are decided again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from sparklog.chain.commit.command_body import SLICES_INLINE, CommandBody
from sparklog.chain.entry import EncodedEntry, encode_command, encode_entry
from sparklog.chain.head import Draft, Head
from sparklog.core.commands import Append, Command, CommitOffsets, Submission
from sparklog.core.coordination import Author
from sparklog.core.decide.command import Decision, decide
from sparklog.core.errors import (
    InvalidInput,
    Landed,
    OutcomeUnknown,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
)
from sparklog.core.records import Appended, AppliedCommand, At, CommandResult
from sparklog.core.replication.lost_records import version_lost
from sparklog.core.types import EntryNumber

_REFUSALS = (StoreFull, StoreReadOnly, StoreAccessDenied)
GROUP_SLICES = 1_000  # an entry takes commands until they have this many slices and offsets


@dataclass(slots=True, eq=False)
class Ticket:
    """A submitted command. It is done once it has a result or an error. `deadline_ms` is on the monotonic clock."""

    submission: Submission
    deadline_ms: int
    timeout_ms: int
    result: CommandResult | None = None
    error: SparklogError | None = None
    sent: bool = False  # an entry with it was sent, and its outcome is not known yet
    body: CommandBody | None = None  # the stored body of a large append, for the entry to name

    @property
    def done(self) -> bool:
        """True if the command has a result or an error."""
        return self.result is not None or self.error is not None

    def outcome(self) -> CommandResult:
        """Return the result of a command that is done, or raise its error.

        Raises WriteLost if the result says that an election gave up records of the application.
        """
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise AssertionError("a command that is done has a result or an error")
        if self.result.application is not None and self.result.lost is not None:
            raise version_lost(self.result.application, self.result.lost)
        return self.result

    def doubt(self) -> None:
        """Mark the command as in doubt if an entry with it was sent: that entry may land, unknown to this process."""
        if self.sent:
            self.submission = msgspec.structs.replace(self.submission, in_doubt=True)
            self.sent = False

    def fail(self, error: SparklogError) -> None:
        """End the command with `error`, or with OutcomeUnknown if this or an earlier attempt may have landed.

        Even then, a refusal of the store keeps its code: callers retry after OutcomeUnknown, but only an operator can
        remove the cause of a refusal.
        """
        self.error = error
        maybe = self.sent or self.submission.in_doubt
        if maybe and isinstance(error, _REFUSALS):
            self.error = error.perhaps_landed()
        elif (maybe and error.landed is Landed.NO) or isinstance(error, OutcomeUnknown):
            self.error = OutcomeUnknown(
                f"command {self.submission.command_id} may have landed, and its outcome could not be read: {error}"
            )
            self.error.__cause__ = error


@dataclass(slots=True)
class CommandGroup:
    """Commands that were decided in order, starting from `head`. Those in `decided` are to become the entry `at`."""

    head: Head
    tickets: Sequence[Ticket]
    at: At
    draft: Draft
    decided: list[tuple[Ticket, AppliedCommand]] = field(default_factory=list)
    encoded: list[msgspec.Raw] = field(default_factory=list)  # the decided commands, encoded
    known: list[tuple[Ticket, CommandResult]] = field(default_factory=list)  # answers that need no entry
    committed: list[tuple[Ticket, EntryNumber]] = field(default_factory=list)  # applied before, by these entries
    refused: list[tuple[Ticket, SparklogError]] = field(default_factory=list)
    without_body: list[Ticket] = field(default_factory=list)  # large appends whose bodies must be stored first

    @property
    def rests_on(self) -> int:
        """The newest entry on which the answers in `known` and `committed` depend; -1 if both are empty."""
        return max((*(result.n for _, result in self.known), *(n for _, n in self.committed)), default=-1)

    def end_entry(self, author: Author, nonce: str) -> bytes:
        """Encode the decided commands as an entry; return its bytes. The draft becomes the state after this entry."""
        at, chain_id = self.at, self.draft.state.chain_id
        previous = self.head.entry_hash
        entry = EncodedEntry(chain_id, at.n, author, nonce, previous, at.time_ms, tuple(self.encoded))
        body = encode_entry(entry)
        self.draft.end_entry(self.at, author, body)
        return body


def fitting(queue: Iterable[Ticket]) -> list[Ticket]:
    """Return the longest-waiting commands of `queue` that fit into one entry together, but at least one command."""
    tickets: list[Ticket] = []
    weight = 0
    for ticket in queue:
        weight += _weight(ticket.submission.command)
        if tickets and weight > GROUP_SLICES:
            break
        tickets.append(ticket)
    return tickets


def _weight(command: Command) -> int:
    """Return how much of GROUP_SLICES a command takes: the number of its slices and committed offsets.

    A large append counts as SLICES_INLINE slices, and a command other than an append or a commit of offsets as 1.
    """
    match command:
        case CommitOffsets():
            return max(len(command.offsets), 1)
        case Append():
            consumed = 0 if command.consumed is None else len(command.consumed.offsets)
            return min(len(command.slices), SLICES_INLINE) + consumed
        case _:
            return 1


def decide_group(head: Head, tickets: Sequence[Ticket], time_ms: int, *, confirmed: bool) -> CommandGroup:
    """Decide the commands in order, each on the state that the commands before it in the group lead to.

    A refusal, or a result without records, must not depend on a command that may fail to land. So a command that would
    get one stays undecided in two cases: an earlier command of this group led to records, or `confirmed` is False
    (entry `head.n` is still pending).
    """
    group = CommandGroup(head, tickets, At(EntryNumber(head.n + 1), time_ms), Draft(head))
    for ticket in tickets:
        final = confirmed and not group.decided
        try:
            decision = decide(group.draft.state, ticket.submission, group.at)
            if decision.records:
                _add(group, ticket, decision)
            elif final and decision.committed_in is not None:
                group.committed.append((ticket, decision.committed_in))
            elif final:
                # With no known result either, the state is already as the command wants it.
                already = CommandResult(EntryNumber(head.n), ticket.submission.n0, head.state.time_ms)
                group.known.append((ticket, decision.known or already))
        except SparklogError as error:
            if final:
                group.refused.append((ticket, error))
        except Exception as error:  # a command may hold wrong types, and must not end the other commands
            is_torn = group.draft.is_torn
            if is_torn:
                others = [other for other in tickets if other is not ticket]
                group = decide_group(head, others, time_ms, confirmed=confirmed)
                group.tickets = tickets
            if final:
                group.refused.append((ticket, _undecidable(ticket, error)))
            if is_torn:
                break
    return group


def _undecidable(ticket: Ticket, error: Exception) -> InvalidInput:
    wrong = InvalidInput(
        f"command {ticket.submission.command_id} can't be decided, a value in it may have the wrong type: {error!r}"
    )
    wrong.__cause__ = error
    return wrong


def _add(group: CommandGroup, ticket: Ticket, decision: Decision) -> None:
    """Apply a decided command to the draft, and add it to the entry.

    A large append whose body is not stored yet is only added to `without_body`.
    """
    submission, records = ticket.submission, decision.records
    applied = in_entry = AppliedCommand(submission.command_id, submission.n0, records)
    encoded = encode_command(applied)
    appended = records[0]
    if isinstance(appended, Appended) and len(appended.slices) > SLICES_INLINE:
        if ticket.body is None:
            group.without_body.append(ticket)
            return
        in_entry = msgspec.structs.replace(applied, records=(ticket.body.reference(appended), *records[1:]))
        encoded = encode_command(in_entry)
    group.draft.apply_command(applied, group.at)
    group.decided.append((ticket, in_entry))
    group.encoded.append(encoded)
