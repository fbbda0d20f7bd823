"""Which of the commands that wait go into the next entry, and what they lead to. Nothing here waits or does I/O.

Commands are decided one after the other, each on the state after those before it. That state is a draft: it becomes
the head when the entry has won its slot, or it is dropped and all is decided again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from sparklog.chain.command_body import SLICES_INLINE, CommandBody
from sparklog.chain.entry import Author, EncodedEntry, encode_command, encode_entry
from sparklog.chain.head import Draft, Head
from sparklog.core.commands import Append, Submission
from sparklog.core.decide.command import Decision, decide
from sparklog.core.errors import InvalidInput, Landed, OutcomeUnknown, SparklogError
from sparklog.core.records import Appended, AppliedCommand, At, CommandResult
from sparklog.core.types import EntryNumber

GROUP_SLICES = 1_000  # an entry takes commands until they have this many slices


@dataclass(slots=True, eq=False)
class Ticket:
    """A command that was handed in; done when it has a result or an error. `deadline_ms` is on the monotonic clock."""

    submission: Submission
    deadline_ms: int
    timeout_ms: int
    result: CommandResult | None = None
    error: SparklogError | None = None
    sent: bool = False  # an entry with it is on its way, and nobody knows yet what becomes of it
    body: CommandBody | None = None  # of a large append: what is in the store for the entry to name

    @property
    def done(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.result is not None or self.error is not None

    def doubt(self) -> None:
        """From now on an attempt may have landed of which nobody was told."""
        if self.sent:
            self.submission = msgspec.structs.replace(self.submission, in_doubt=True)
            self.sent = False

    def fail(self, error: SparklogError) -> None:
        """End with `error`, or with OutcomeUnknown if this attempt may have landed, or one before."""
        self.error = error
        maybe = self.sent or self.submission.in_doubt
        if (maybe and error.landed is Landed.NO) or isinstance(error, OutcomeUnknown):
            self.error = OutcomeUnknown(
                f"command {self.submission.command_id} may have landed, and what came of it could not be read: {error}"
            )
            self.error.__cause__ = error


@dataclass(slots=True)
class Group:
    """Commands that were decided together behind one head: entry `at` if they are written."""

    head: Head
    tickets: Sequence[Ticket]
    at: At
    draft: Draft
    decided: list[tuple[Ticket, AppliedCommand]] = field(default_factory=list)
    encoded: list[msgspec.Raw] = field(default_factory=list)  # of what was decided
    known: list[tuple[Ticket, CommandResult]] = field(default_factory=list)  # answers that need no entry
    committed: list[tuple[Ticket, EntryNumber]] = field(default_factory=list)  # before, by these entries
    refused: list[tuple[Ticket, SparklogError]] = field(default_factory=list)
    without_body: list[Ticket] = field(default_factory=list)  # large appends that are to be stored first

    @property
    def rests_on(self) -> int:
        """The newest entry that an answer rests on; -1 for none."""
        return max((*(result.n for _, result in self.known), *(n for _, n in self.committed)), default=-1)

    def entry(self, author: Author, nonce: str) -> bytes:
        """The bytes of the entry with what was decided; the draft is the state after it from now on."""
        at, chain_id = self.at, self.draft.state.chain_id
        previous = self.head.entry_hash
        entry = EncodedEntry(chain_id, at.n, author, nonce, previous, at.time_ms, tuple(self.encoded))
        body = encode_entry(entry)
        self.draft.end_entry(self.at, body)
        return body


def taken(queue: Iterable[Ticket]) -> list[Ticket]:
    """The longest-waiting commands that together fit one entry: at least one."""
    tickets: list[Ticket] = []
    slices = 0
    for each in queue:
        command = each.submission.command
        slices += min(len(command.slices), SLICES_INLINE) if isinstance(command, Append) else 1
        if tickets and slices > GROUP_SLICES:
            break
        tickets.append(each)
    return tickets


def decide_group(head: Head, tickets: Sequence[Ticket], time_ms: int, *, confirmed: bool) -> Group:
    """Decide each on the state after those before it.

    Anything that leads to no records depends on commands of the group, or of an entry that is not yet `confirmed`, if
    there are any: then it stays open.
    """
    group = Group(head, tickets, At(EntryNumber(head.n + 1), time_ms), Draft(head))
    for ticket in tickets:
        final = confirmed and not group.decided
        try:
            decision = decide(group.draft.state, ticket.submission, group.at)
            if decision.records:
                _add(group, ticket, decision)
            elif final and decision.committed_in is not None:
                group.committed.append((ticket, decision.committed_in))
            elif final:
                # If nothing is known either, the state is as wanted already.
                already = CommandResult(EntryNumber(head.n), ticket.submission.n0, head.state.time_ms)
                group.known.append((ticket, decision.known or already))
        except SparklogError as error:
            if final:
                group.refused.append((ticket, error))
        except Exception as error:  # types are not checked when a command is made; and no command may end the others
            is_torn = group.draft.is_torn
            if is_torn:
                others = [each for each in tickets if each is not ticket]
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


def _add(group: Group, ticket: Ticket, decision: Decision) -> None:
    """Apply what a command leads to to the draft, and keep it for the entry."""
    submission, records = ticket.submission, decision.records
    applied = in_entry = AppliedCommand(submission.command_id, submission.n0, records)
    encoded = encode_command(applied)
    if isinstance(submission.command, Append) and len(submission.command.slices) > SLICES_INLINE:
        if ticket.body is None:
            group.without_body.append(ticket)
            return
        appended = records[0]
        if not isinstance(appended, Appended):
            raise AssertionError("an append leads to Appended")
        in_entry = msgspec.structs.replace(applied, records=(ticket.body.reference(appended),))
        encoded = encode_command(in_entry)
    group.draft.apply_command(applied, group.at)
    group.decided.append((ticket, in_entry))
    group.encoded.append(encoded)
