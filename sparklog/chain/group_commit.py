"""Group commit, as a state machine: all commands that wait go into one entry.

IDLE ── a command, after a long silence ──► CHECKING that the chain is still there ──┐
  │ ◄─────────────────────────────────────────────────────────────────────────────────┘
  ├── commands that lead to records ──► CLAIMING a slot ── won ──► their results
  │     ▲ │ large ones first: STORING         │ lost ──► FOLLOWING what others wrote, then decided anew
  │     └─┘                                   └ voided ► FOLLOWING from the newest snapshot, then decided anew
  ├── a command that is refused ──► FOLLOWING: a refusal, too, is decided on the newest state
  ├── an answer that rests on an entry of another process ──► SETTLING: that entry is made durable first
  └── a command that the chain knows ──► READING its result back from the entry that applied it

While the mark of slot n's block is looked for, slot n+1 of the same block is claimed already; it is acknowledged after
n. The machine draws no id, reads no clock, holds no lock and does no I/O: `submit`, `reply` and `recover` are given
the moment, what is to be done is in `requests`, and tickets that have a result or an error are in `ended`.

Fewer, larger entries are faster and cheaper than many small ones. So a slot is not claimed behind a mark look-up for
no more commands than the entry in front of it holds; and after an entry that took long the next one waits a moment for
callers who come back (`gathering.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sparklog.chain.catch_up import CatchUp
from sparklog.chain.claim import Claim, Lost, Voided, Won
from sparklog.chain.command_body import CommandBody, StoreBody
from sparklog.chain.damage import damage
from sparklog.chain.entry import Author, Entry, hash_of
from sparklog.chain.gathering import Gathering
from sparklog.chain.group import Group, Ticket, decide_group, taken
from sparklog.chain.head import Head
from sparklog.chain.read_entries import ReadEntries, results_in
from sparklog.chain.requests import Get, Now, Pause, Put, Reply, Request
from sparklog.core.apply import result_of
from sparklog.core.errors import (
    InconsistentClusterId,
    KeyExists,
    KeyNotFound,
    Landed,
    RequestTimedOut,
    SparklogError,
)
from sparklog.core.readable import duration
from sparklog.core.records import AppliedCommand, At
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_block, entry_key

IDLE_MS = 10_000  # after so long without an entry, a look whether it is still the same chain
REST_AFTER = 8  # slots lost one after the other, before a pause lets others go first
REST_MS = 50.0


class Phase(StrEnum):
    """What the machine is doing."""

    IDLE = "idle"
    CHECKING = "checking"
    GATHERING = "gathering"
    FOLLOWING = "following"
    SETTLING = "settling"
    READING = "reading"
    STORING = "storing"
    CLAIMING = "claiming"
    RESTING = "resting"


@dataclass(slots=True, eq=False)
class Attempt:
    """An entry on its way into its slot: what it leads to if it wins, and whom that concerns."""

    claim: Claim
    at: At
    after: Head
    decided: Sequence[tuple[Ticket, AppliedCommand]]
    began_ms: int
    is_followed: bool = False  # what waited was decided behind it already
    outcome: Won | Lost | Voided | SparklogError | None = None


@dataclass(slots=True)
class CommitCounts:
    """What was done so far. `group_sizes[k]`: entries that held k commands (F-02)."""

    entries: int = 0
    lost_slots: int = 0
    group_sizes: dict[int, int] = field(default_factory=dict)


Handler = Callable[[Reply, Now], None]


class GroupCommit:
    """Commits to one chain, from `head` on, which was read at `known_ms`. `url` of the metadata is for messages."""

    def __init__(self, author: Author, url: str, head: Head, known_ms: int) -> None:
        self.author = author
        self.head = head
        self.phase = Phase.IDLE
        self.counts = CommitCounts()
        self.requests: deque[Request] = deque()  # to be performed: a shell takes them out, in any order
        self.ended: deque[Ticket] = deque()  # done: a shell takes them out, and tells their callers
        self._url = url
        self._queue: deque[Ticket] = deque()
        self._attempts: deque[Attempt] = deque()  # of slots that follow each other
        self._handlers: dict[Request, Handler] = {}
        self._round: list[Ticket] = []  # whom an error concerns while it follows
        # Those who waited when the last look for newer entries began: its head is new enough to refuse them on.
        self._caught_up: frozenset[Ticket] = frozenset()
        self._known_ms = known_ms  # when the slot behind the head was known to be this chain's
        self._lost_in_a_row = 0
        self._gathering = Gathering()
        self._look: Request | None = None  # the pause in which commands are gathered
        # All entries up to this one are durable, also their names: this process put one behind them into their
        # directory, or made sure. A process may die between the two steps of a local put.
        self._settled_n = -1

    def submit(self, ticket: Ticket, now: Now) -> None:
        """Hand in a command."""
        self._queue.append(ticket)
        if self._look is not None and self._gathering.is_complete(len(self._queue)):
            self._handlers.pop(self._look, None)
            self._look = None
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
        self._caught_up = frozenset()
        self._queue = deque(each for each in tickets if not each.done)
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
            if self._gathers(now) or not self._decide(now):
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
        return (
            len(self._attempts) == 1
            and last.claim.is_there
            and not last.is_followed
            and len(self._queue) > len(last.decided)
            and entry_block(last.at.n + 1) == entry_block(last.at.n)
        )

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
        if not confirmed:
            self._attempts[-1].is_followed = True
        group = decide_group(head, taken(self._queue), now.wall_ms, confirmed=confirmed)
        if group.rests_on > self._settled_n:
            self._settle()
            return False
        if group.committed:
            self._read_back(group.committed)
            return False
        if not self._caught_up.issuperset(ticket for ticket, _ in group.refused):
            self._follow(CatchUp(self.head, self._url), group.tickets)
            return False
        for ticket, result in group.known:
            ticket.result = result
            self.ended.append(ticket)
        for ticket, error in group.refused:
            ticket.fail(error)
            self.ended.append(ticket)
        if group.without_body:
            if confirmed:
                self._take_out(group.tickets)
                self._store(group.without_body)
        elif group.decided:
            self._claim(group, now)
            self._take_out(group.tickets)
        else:
            self._take_out(group.tickets)
            return confirmed
        return False

    def _take_out(self, tickets: Sequence[Ticket]) -> None:
        """Of these, which are the first that wait, those wait no more that are done or sent."""
        for _ in tickets:
            self._queue.popleft()
        self._queue.extendleft(each for each in reversed(tickets) if not each.done and not each.sent)

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
                    self._fail([ticket], error)

        return handle

    # ---- claiming -------------------------------------------------------------------------------

    def _claim(self, group: Group, now: Now) -> None:
        """Send what was decided as one entry."""
        self.phase = Phase.CLAIMING
        body = group.entry(self.author, now.nonce)
        # Nobody's append may fail early because another caller was in more of a hurry.
        patient = max((ticket for ticket, _ in group.decided), key=lambda each: each.deadline_ms)
        claim = Claim(group.at.n, body, patient.deadline_ms, patient.timeout_ms, self._url)
        attempt = Attempt(claim, group.at, group.draft.head(), group.decided, now.monotonic_ms)
        self._attempts.append(attempt)
        for ticket, _ in group.decided:
            ticket.sent = True
        self._caught_up = frozenset()
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
                    self._acknowledge(self._attempts.popleft(), now)
                case Lost():
                    first = self._give_up()
                    self._after_lost(first, outcome.body, now)
                case Voided():
                    first = self._give_up(in_doubt=True)
                    self._follow(CatchUp(self.head, self._url, reload=True), list(self._queue))
                case SparklogError() as error:
                    first = self._give_up()
                    self._fail([ticket for ticket, _ in first.decided], error)

    def _acknowledge(self, attempt: Attempt, now: Now) -> None:
        if attempt.after.n > self.head.n:
            self.head = attempt.after
        for ticket, applied in attempt.decided:
            ticket.sent = False
            ticket.result = result_of(applied, attempt.at)
            self.ended.append(ticket)
        self._settled_n = attempt.at.n
        self._lost_in_a_row = 0
        self.counts.entries += 1
        size = len(attempt.decided)
        self.counts.group_sizes[size] = self.counts.group_sizes.get(size, 0) + 1
        self._gathering.expect(size, len(self._queue), now.monotonic_ms - attempt.began_ms, now.monotonic_ms)

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
        self._queue.extendleft(reversed(again))
        return first

    def _after_lost(self, attempt: Attempt, body: bytes, now: Now) -> None:
        """Somebody else has the slot: follow, and decide anew."""
        self.counts.lost_slots += 1
        self._lost_in_a_row += 1
        tickets = [ticket for ticket, _ in attempt.decided]
        for ticket in tickets:
            if ticket.deadline_ms <= now.monotonic_ms:
                slot = f"found every slot taken for {duration(ticket.timeout_ms)}"
                self._fail([ticket], RequestTimedOut(f"command {ticket.submission.command_id} {slot}"))
        found = body if self.head.n == attempt.at.n - 1 else None
        many = self._lost_in_a_row % REST_AFTER == 0
        self._follow(CatchUp(self.head, self._url, found=found), tickets, self._rest if many else None)

    def _fail(self, tickets: Iterable[Ticket], error: SparklogError) -> None:
        """End those of `tickets` that are not done yet."""
        for each in tickets:
            if not each.done:
                each.fail(error)
                self.ended.append(each)
        self._queue = deque(each for each in self._queue if not each.done)

    # ---- gathering ------------------------------------------------------------------------------

    def _gathers(self, now: Now) -> bool:
        """Wait for more commands, if that pays. Whether it does."""
        look_ms = None if self._attempts else self._gathering.look_ms(len(self._queue), now.monotonic_ms)
        if look_ms is None:
            return False
        self.phase = Phase.GATHERING
        self._look = Pause(look_ms)
        self._ask(self._look, lambda reply, now: self._gathering.looked(len(self._queue), now.monotonic_ms))
        return True

    # ---- following ------------------------------------------------------------------------------

    def _follow(self, catch_up: CatchUp, tickets: Iterable[Ticket], then: Callable[[], None] | None = None) -> None:
        """Follow the chain to its end, and do what comes `then`; an error concerns `tickets`."""
        self.phase = Phase.FOLLOWING
        self._round = [each for each in tickets if not each.done]
        waiting = frozenset(self._queue)

        def handle(reply: Reply, now: Now) -> None:
            match catch_up.reply(reply):
                case Request() as request:
                    self._ask(request, handle)
                case Head() as head:
                    self.head, self._caught_up = head, waiting
                    if then is not None:
                        then()
                case SparklogError() as error:
                    self._fail_round(error)

        self._ask(catch_up.start(), handle)

    def _rest(self) -> None:
        """Let others go first for a moment."""
        self.phase = Phase.RESTING
        self._caught_up = frozenset()
        self._ask(Pause(REST_MS), lambda reply, now: None)

    def _fail_round(self, error: SparklogError) -> None:
        self._fail(self._round, error)

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

    # ---- what was committed before --------------------------------------------------------------

    def _read_back(self, committed: Sequence[tuple[Ticket, EntryNumber]]) -> None:
        """Answer commands that the chain knows from the entries that applied them."""
        self.phase = Phase.READING
        machine = ReadEntries((n for _, n in committed), self._url)

        def handle(reply: Reply, now: Now) -> None:
            match machine.reply(reply):
                case Request() as request:
                    self._ask(request, handle)
                case SparklogError() as error:
                    error.landed = Landed.YES
                    self._fail([ticket for ticket, _ in committed], error)
                case entries:
                    self._answer(committed, entries)

        self._ask(machine.start(), handle)

    def _answer(self, committed: Sequence[tuple[Ticket, EntryNumber]], entries: Iterable[Entry]) -> None:
        """An entry that is gone is below a FLOOR that this head does not know yet; else it is damage."""
        results = {command.command_id: result for command, result in results_in(entries)}
        for ticket, _ in committed:
            ticket.result = results.get(ticket.submission.command_id)
        self.ended.extend(ticket for ticket, _ in committed if ticket.done)
        self._queue = deque(each for each in self._queue if not each.done)
        unread = [(ticket, n) for ticket, n in committed if not ticket.done]
        if not self._caught_up.issuperset(ticket for ticket, _ in unread):
            self._follow(CatchUp(self.head, self._url), [ticket for ticket, _ in unread])
            return
        for ticket, n in unread:
            found = f"it applied command {ticket.submission.command_id}, and its result can't be read back from it"
            error = damage(entry_key(n), found, self._url)
            error.landed = Landed.YES
            self._fail([ticket], error)

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
