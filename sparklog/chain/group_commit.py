"""Group commit, as a state machine: all commands that wait go into one entry.

IDLE ── a command, after a long silence ──► CHECKING that the chain is still there ──┐
  │ ◄─────────────────────────────────────────────────────────────────────────────────┘
  ├── commands that lead to records ──► CLAIMING a slot ── won ──► their results
  │     ▲ │ large ones first: STORING         │ lost ──► FOLLOWING what others wrote, then decided anew
  │     └─┘                                   └ voided ► FOLLOWING from the newest snapshot, then decided anew
  ├── a command that is refused ──► FOLLOWING: a refusal, too, is decided on the newest state
  └── an answer that rests on an entry of another process ──► SETTLING: that entry is made durable first

While the mark of slot n's block is looked for, slot n+1 of the same block is claimed already; it is acknowledged after
n. The machine draws no id, reads no clock, holds no lock and does no I/O: `submit`, `reply` and `recover` are given
the moment, what is to be done is in `requests`, and a ticket is done when it has a result or an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from sparklog.chain.catch_up import CatchUp
from sparklog.chain.claim import Claim, Lost, Voided, Won
from sparklog.chain.command_body import SLICES_INLINE, CommandBody, StoreBody
from sparklog.chain.entry import Author, Entry, check_readable, encode_entry, hash_of
from sparklog.chain.head import Draft, Head
from sparklog.chain.requests import Get, Now, Pause, Put, Reply, Request
from sparklog.core.apply import result_of
from sparklog.core.commands import Append, Submission
from sparklog.core.decide import Decision, decide
from sparklog.core.errors import (
    InconsistentClusterId,
    InvalidInput,
    KeyExists,
    KeyNotFound,
    Landed,
    OutcomeUnknown,
    RequestTimedOut,
    SparklogError,
)
from sparklog.core.readable import duration
from sparklog.core.records import Appended, AppliedCommand, At, CommandResult
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_block, entry_key

GROUP_SLICES = 1_000  # an entry takes commands until they have this many slices
IDLE_MS = 10_000  # after so long without an entry, a look whether it is still the same chain
REST_AFTER = 8  # slots lost one after the other, before a pause lets others go first
REST_MS = 50.0


class Phase(StrEnum):
    """What the machine is doing."""

    IDLE = "idle"
    CHECKING = "checking"
    FOLLOWING = "following"
    SETTLING = "settling"
    STORING = "storing"
    CLAIMING = "claiming"
    RESTING = "resting"


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


@dataclass(slots=True, eq=False)
class Attempt:
    """An entry on its way into its slot: what it leads to if it wins, and whom that concerns."""

    claim: Claim
    at: At
    after: Head
    decided: Sequence[tuple[Ticket, AppliedCommand]]
    outcome: Won | Lost | Voided | SparklogError | None = None


@dataclass(slots=True)
class CommitCounts:
    """What was done so far. `group_sizes[k]`: entries that held k commands (F-02)."""

    entries: int = 0
    lost_slots: int = 0
    group_sizes: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Round:
    """Commands that were decided together on one state."""

    tickets: list[Ticket]
    at: At
    draft: Draft
    decided: list[tuple[Ticket, AppliedCommand]] = field(default_factory=list)
    known: list[tuple[Ticket, CommandResult]] = field(default_factory=list)  # answers that need no entry
    refused: list[tuple[Ticket, SparklogError]] = field(default_factory=list)
    without_body: list[Ticket] = field(default_factory=list)  # large appends that are to be stored first


Handler = Callable[[Reply, Now], None]


class GroupCommit:
    """Commits to one chain, from `head` on, which was read at `known_ms`. `url` of the metadata is for messages."""

    def __init__(self, author: Author, url: str, head: Head, known_ms: int) -> None:
        self.author = author
        self.head = head
        self.phase = Phase.IDLE
        self.counts = CommitCounts()
        self.requests: deque[Request] = deque()  # to be performed: a shell takes them out, in any order
        self._url = url
        self._queue: list[Ticket] = []
        self._attempts: deque[Attempt] = deque()  # of slots that follow each other
        self._handlers: dict[Request, Handler] = {}
        self._round: list[Ticket] = []  # whom an error concerns while it follows
        self._caught_up = False  # whether the head was the newest one when the last round ended
        self._known_ms = known_ms  # when the slot behind the head was known to be this chain's
        self._lost_in_a_row = 0
        # All entries up to this one are durable, also their names: this process put one behind them into their
        # directory, or made sure. A process may die between the two steps of a local put.
        self._settled_n = -1

    def submit(self, ticket: Ticket, now: Now) -> None:
        """Hand in a command."""
        self._queue.append(ticket)
        self._advance(now)

    def reply(self, request: Request, reply: Reply, now: Now) -> None:
        """What came of a request. One that nobody waits for any more is passed over."""
        handler = self._handlers.pop(request, None)
        if handler is not None:
            handler(reply, now)
            self._advance(now)

    def recover(self, tickets: Iterable[Ticket], now: Now) -> None:
        """Begin again with these, after a caller was interrupted and is not one of them.

        Where it was interrupted nobody knows, also inside this machine: what was sent is in doubt. Nothing waits for
        the replies that are still to come.
        """
        self._attempts.clear()
        self._forget_requests()
        self._caught_up = False
        self._queue = [each for each in tickets if not each.done]
        for each in self._queue:
            each.doubt()
        self._advance(now)

    def learn(self, head: Head) -> None:
        """Take over a head that others have followed the chain to, if it is not older and nothing is under way."""
        if not self._handlers and not self._attempts and head.n >= self.head.n:
            self.head = head

    # ---- what comes next ------------------------------------------------------------------------

    def _advance(self, now: Now) -> None:
        """Begin what can be begun."""
        while self._may_decide():
            if not self._attempts and self._is_long_silent(now):
                self._check_chain()
                return
            if not self._decide(now):
                return
        if not self._attempts and not self._handlers:
            self.phase = Phase.IDLE

    def _may_decide(self) -> bool:
        """Whether commands wait, and a slot may be claimed: no other is, or only the mark of the one before is due."""
        if not self._queue:
            return False
        if not self._attempts:
            return not self._handlers
        last = self._attempts[-1]
        return len(self._attempts) == 1 and last.claim.is_there and entry_block(last.at.n + 1) == entry_block(last.at.n)

    def _ask(self, request: Request, handler: Handler) -> None:
        self._handlers[request] = handler
        self.requests.append(request)

    def _forget_requests(self) -> None:
        """Nobody waits for the replies that are still to come."""
        self._handlers.clear()
        self.requests.clear()

    # ---- deciding -------------------------------------------------------------------------------

    def _decide(self, now: Now) -> bool:
        """Decide what waits on the newest head, and begin what that leads to. Whether there is more to decide now."""
        confirmed = not self._attempts
        head = self.head if confirmed else self._attempts[-1].after
        if entry_block(head.n + 1) != entry_block(head.n) and self._settled_n < head.n and confirmed:
            self._settle()  # nobody puts into the directory of that entry again
            return False
        found = self._decided(head, self._taken(), confirmed=confirmed, now=now)
        if any(result.n > self._settled_n for _, result in found.known):
            self._settle()
            return False
        if found.refused and not self._caught_up:
            self._follow(CatchUp(self.head, self._url), found.tickets)
            return False
        for ticket, result in found.known:
            ticket.result = result
        for ticket, error in found.refused:
            ticket.fail(error)
        self._queue = [each for each in self._queue if not each.done]
        if found.without_body:
            if confirmed:
                self._store(found.without_body)
            return False
        if found.decided:
            self._claim(found, now)
            return False
        return confirmed and bool(found.tickets)

    def _taken(self) -> list[Ticket]:
        """The longest-waiting commands that together fit one entry: at least one."""
        count, slices = 0, 0
        for each in self._queue:
            command = each.submission.command
            own = min(len(command.slices), SLICES_INLINE) if isinstance(command, Append) else 1
            if count and slices + own > GROUP_SLICES:
                break
            count, slices = count + 1, slices + own
        return self._queue[:count]

    def _decided(self, head: Head, tickets: list[Ticket], *, confirmed: bool, now: Now) -> _Round:
        """Decide each on the state after those before it.

        Anything that leads to no records depends on commands of the group, or of an entry that is not yet
        `confirmed`, if there are any: then it stays open.
        """
        at = At(EntryNumber(head.n + 1), now.wall_ms)
        found = _Round(tickets, at, Draft(head))
        for ticket in tickets:
            final = confirmed and not found.decided
            try:
                decision = decide(found.draft.state, ticket.submission, at)
                if decision.records:
                    self._add(found, ticket, decision)
                elif final:
                    # If nothing is known either, the state is as wanted already.
                    already = CommandResult(EntryNumber(head.n), ticket.submission.n0, head.state.time_ms)
                    found.known.append((ticket, decision.known or already))
            except SparklogError as error:
                if final:
                    found.refused.append((ticket, error))
            except (TypeError, ValueError, AttributeError) as error:  # types are not checked when a command is made
                wrong = InvalidInput(f"command {ticket.submission.command_id} holds a value of the wrong type: {error}")
                wrong.__cause__ = error
                if final:
                    found.refused.append((ticket, wrong))
        return found

    def _add(self, found: _Round, ticket: Ticket, decision: Decision) -> None:
        """Apply what a command leads to to the draft, and keep it for the entry."""
        submission, records = ticket.submission, decision.records
        applied = in_entry = AppliedCommand(submission.command_id, submission.n0, records)
        check_readable(applied)
        if isinstance(submission.command, Append) and len(submission.command.slices) > SLICES_INLINE:
            if ticket.body is None:
                found.without_body.append(ticket)
                return
            appended = records[0]
            if not isinstance(appended, Appended):
                raise AssertionError("an append leads to Appended")
            in_entry = msgspec.structs.replace(applied, records=(ticket.body.reference(appended),))
            check_readable(in_entry)
        found.draft.apply_command(applied, found.at)
        found.decided.append((ticket, in_entry))

    # ---- large commands -------------------------------------------------------------------------

    def _store(self, tickets: Sequence[Ticket]) -> None:
        """Put the bodies of large commands beside the chain; nothing names them before an entry does."""
        self.phase = Phase.STORING
        for ticket in tickets:
            store = StoreBody(ticket.submission, ticket.deadline_ms, ticket.timeout_ms, self._url)
            self._ask(store.start(), self._of_body(ticket, store))

    def _of_body(self, ticket: Ticket, store: StoreBody) -> Handler:
        def handle(reply: Reply, now: Now) -> None:
            match store.reply(reply, now):
                case Request() as request:
                    self._ask(request, handle)
                case CommandBody() as body:
                    ticket.body = body
                case SparklogError() as error:
                    self._end(ticket, error)

        return handle

    # ---- claiming -------------------------------------------------------------------------------

    def _claim(self, found: _Round, now: Now) -> None:
        """Send what was decided as one entry."""
        self.phase = Phase.CLAIMING
        before = self.head if not self._attempts else self._attempts[-1].after
        commands = tuple(applied for _, applied in found.decided)
        chain_id = before.state.chain_id or found.draft.state.chain_id
        body = encode_entry(
            Entry(chain_id, found.at.n, self.author, now.nonce, before.entry_hash, found.at.time_ms, commands)
        )
        found.draft.end_entry(found.at, body)
        # Nobody's append may fail early because another caller was in more of a hurry.
        patient = max((ticket for ticket, _ in found.decided), key=lambda each: each.deadline_ms)
        claim = Claim(found.at.n, body, patient.deadline_ms, patient.timeout_ms, self._url)
        attempt = Attempt(claim, found.at, found.draft.head(), found.decided)
        self._attempts.append(attempt)
        for ticket, _ in found.decided:
            ticket.sent = True
        self._queue = [each for each in self._queue if not each.sent]
        self._caught_up = False
        self._ask(claim.start(), self._of_claim(attempt))

    def _of_claim(self, attempt: Attempt) -> Handler:
        def handle(reply: Reply, now: Now) -> None:
            match attempt.claim.reply(reply, now):
                case Request() as request:
                    self._ask(request, handle)
                case outcome:
                    attempt.outcome = outcome
                    self._end_attempts(now)

        return handle

    def _end_attempts(self, now: Now) -> None:
        """Act on what is known of the oldest slot, and then of the next: never on a later one first."""
        while self._attempts and (outcome := self._attempts[0].outcome) is not None:
            self._known_ms = now.monotonic_ms
            match outcome:
                case Won():
                    self._acknowledge(self._attempts.popleft())
                case Lost():
                    first = self._give_up()
                    self._after_lost(first, outcome.body, now)
                case Voided():
                    first = self._give_up(in_doubt=True)
                    self._follow(CatchUp(self.head, self._url, reload=True), list(self._queue))
                case SparklogError() as error:
                    first = self._give_up()
                    for ticket, _ in first.decided:
                        self._end(ticket, error)

    def _acknowledge(self, attempt: Attempt) -> None:
        if attempt.after.n > self.head.n:
            self.head = attempt.after
        for ticket, applied in attempt.decided:
            ticket.sent = False
            ticket.result = result_of(applied, attempt.at)
        self._settled_n = attempt.at.n
        self._lost_in_a_row = 0
        self.counts.entries += 1
        size = len(attempt.decided)
        self.counts.group_sizes[size] = self.counts.group_sizes.get(size, 0) + 1

    def _give_up(self, *, in_doubt: bool = False) -> Attempt:
        """End all attempts; their commands wait again. Returns the oldest attempt.

        Those of a later one are in doubt: it was sent behind an entry of which nobody knows now whether it counts.
        """
        first, *later = self._attempts
        self._attempts.clear()
        self._forget_requests()
        if not in_doubt:
            for ticket, _ in first.decided:
                ticket.sent = False
        again = [ticket for attempt in (first, *later) for ticket, _ in attempt.decided]
        for ticket in again:
            ticket.doubt()
        self._queue[:0] = again
        return first

    def _after_lost(self, attempt: Attempt, body: bytes, now: Now) -> None:
        """Somebody else has the slot: follow, and decide anew."""
        self.counts.lost_slots += 1
        self._lost_in_a_row += 1
        tickets = [ticket for ticket, _ in attempt.decided]
        for ticket in tickets:
            if ticket.deadline_ms <= now.monotonic_ms:
                slot = f"found every slot taken for {duration(ticket.timeout_ms)}"
                self._end(ticket, RequestTimedOut(f"command {ticket.submission.command_id} {slot}"))
        found = body if self.head.n == attempt.at.n - 1 else None
        many = self._lost_in_a_row % REST_AFTER == 0
        self._follow(CatchUp(self.head, self._url, found=found), tickets, self._rest if many else None)

    def _end(self, ticket: Ticket, error: SparklogError) -> None:
        ticket.fail(error)
        self._queue = [each for each in self._queue if each is not ticket]

    # ---- following ------------------------------------------------------------------------------

    def _follow(self, catch_up: CatchUp, tickets: Iterable[Ticket], then: Callable[[], None] | None = None) -> None:
        """Follow the chain to its end, and do what comes `then`; an error concerns `tickets`."""
        self.phase = Phase.FOLLOWING
        self._round = [each for each in tickets if not each.done]

        def handle(reply: Reply, now: Now) -> None:
            match catch_up.reply(reply):
                case Request() as request:
                    self._ask(request, handle)
                case Head() as head:
                    self.head, self._caught_up = head, True
                    if then is not None:
                        then()
                case SparklogError() as error:
                    self._fail_round(error)

        self._ask(catch_up.start(), handle)

    def _rest(self) -> None:
        """Let others go first for a moment."""
        self.phase = Phase.RESTING
        self._caught_up = False
        self._ask(Pause(REST_MS), lambda reply, now: None)

    def _fail_round(self, error: SparklogError) -> None:
        for each in self._round:
            if not each.done:
                self._end(each, error)

    # ---- what others wrote ----------------------------------------------------------------------

    def _settle(self) -> None:
        """Make the newest entry durable, and with it all before it: put its bytes again.

        `ObjectStore.put_if_absent` promises that what it finds is durable. An entry that was deleted as old is covered
        by a snapshot.
        """
        self.phase = Phase.SETTLING
        n, self._round = self.head.n, list(self._queue)

        def put(reply: Reply, now: Now) -> None:
            match reply:
                case bytes() | memoryview() as body:
                    self._ask(Put(entry_key(n), bytes(body)), settled)
                case KeyNotFound():
                    self._settled_n = n
                case SparklogError() as error:
                    self._fail_round(error)

        def settled(reply: Reply, now: Now) -> None:
            match reply:
                case None | KeyExists():
                    self._settled_n = n
                case SparklogError() as error:
                    self._fail_round(error)

        self._ask(Get(entry_key(n)), put)

    # ---- after a silence ------------------------------------------------------------------------

    def _is_long_silent(self, now: Now) -> bool:
        return self.head.n >= 0 and now.monotonic_ms - self._known_ms >= IDLE_MS

    def _check_chain(self) -> None:
        """Refuse to write into another cluster: its chain, being shorter, would get an entry behind a gap.

        A process that keeps writing is not told that the place was wiped.
        """
        self.phase = Phase.CHECKING

        def read_last() -> None:
            self.phase = Phase.CHECKING
            self._ask(Get(entry_key(self.head.n)), compare)

        def compare(reply: Reply, now: Now) -> None:
            match reply:
                case bytes() | memoryview() as body if hash_of(body) == self.head.entry_hash:
                    self._known_ms = now.monotonic_ms
                case KeyNotFound() | bytes() | memoryview():
                    self._fail_round(
                        InconsistentClusterId(
                            f"cluster {self.head.state.chain_id} is no longer at {self._url}: it was deleted, and "
                            "maybe created again; connect again"
                        )
                    )
                case SparklogError() as error:
                    self._fail_round(error)

        self._follow(CatchUp(self.head, self._url), self._queue, read_last)
