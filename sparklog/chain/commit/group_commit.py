"""Group commit, as a state machine: all waiting commands go into one entry.

IDLE ── a command, after a long silence ──► CHECKING that the chain is still there ──┐
  │ ◄─────────────────────────────────────────────────────────────────────────────────┘
  ├── fewer commands than expected ──► GATHERING: waits a moment for callers to submit again, then decides
  ├── commands that lead to records ──► CLAIMING a slot ── won ──► put on mirrors, if wanted ──► their results
  │     ▲ │ large ones first: STORING         │ lost ──► FOLLOWING what others wrote, then decided again
  │     └─┘                                   └ voided ► FOLLOWING from the newest snapshot, then decided again
  ├── a command that is refused ──► FOLLOWING: a refusal must be decided on the newest state as well
  ├── an answer that depends on another process's entry ──► MAKING it DURABLE first, and mirrored
  └── a command that the chain knows ──► READING its result back from the entry that applied it

After every 8 slots lost in a row the machine is RESTING for 50 ms, so that other processes win slots.

Slot n+1 may be claimed before entry n is acknowledged: while the void mark of their block is looked for, or entry n is
put on mirrors. Entry n+1 is mirrored and acknowledged after entry n.

The machine draws no id, reads no clock, holds no lock and does no I/O: `submit`, `reply` and `recover` get the time as
an argument, `requests` has the requests to perform, and `ended` has the tickets with a result or an error.

Few large entries are faster and cheaper than many small ones. So slot n+1 is claimed early only if more commands wait
for it than entry n holds. After a slow entry, the next one waits a moment for callers to submit again (`gathering.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from sparklog.chain.chain_requests import ChainMachine, Now, Pause, Reply, Request
from sparklog.chain.commit.attempt import Attempt
from sparklog.chain.commit.claim import Claim, Lost, Voided, Won
from sparklog.chain.commit.command_body import CommandBody, stored_body
from sparklog.chain.commit.command_group import CommandGroup, Ticket, decide_group, fitting
from sparklog.chain.commit.commit_counts import CommitCounts
from sparklog.chain.commit.gathering import Gathering
from sparklog.chain.commit.make_durable import made_durable
from sparklog.chain.commit.pending_requests import PendingRequests
from sparklog.chain.entry import Entry
from sparklog.chain.follow.catch_up import caught_up
from sparklog.chain.follow.read_entries import answered, read_entries, unreadable
from sparklog.chain.follow.same_chain import is_long_silent, same_chain
from sparklog.chain.head import Head
from sparklog.chain.mirror.mirror_wait import mirrored
from sparklog.core.apply import result_of
from sparklog.core.coordination import Author, is_fenced, not_in_force
from sparklog.core.describe.readable import duration
from sparklog.core.errors import Landed, RequestTimedOut, SparklogError
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_block

REST_AFTER = 8  # slots lost in a row before a pause lets other processes go first
REST_MS = 50.0


class GroupCommit:
    """Commits to one chain, starting from `head`, which was read at `known_ms` on the monotonic clock.

    `mirrors_wanted` takes the state after an entry, and returns the number of mirrors that must have the entry before
    it is acknowledged. `url` is only for messages.
    """

    def __init__(
        self,
        author: Author,
        url: str,
        head: Head,
        known_ms: int,
        mirrors_wanted: Callable[[ClusterState], int] = lambda state: 0,
    ) -> None:
        self.author = author
        self._mirrors_wanted = mirrors_wanted
        self.head = head
        self.counts = CommitCounts()
        self._pending = PendingRequests()
        self.requests = self._pending.to_perform  # a shell takes these, in any order
        self.ended: deque[Ticket] = deque()  # tickets that are done: a shell takes them, and wakes their callers
        self._url = url
        self._queue: deque[Ticket] = deque()
        self._attempts: deque[Attempt] = deque()  # on consecutive slots
        self._round: list[Ticket] = []  # the tickets that an error ends
        # Tickets that waited when the last round of following began: its head is new enough to refuse them.
        self._caught_up: frozenset[Ticket] = frozenset()
        self._known_ms = known_ms  # when the chain at the address was last known to be this one
        self._lost_in_a_row = 0
        self._gathering = Gathering()
        self._look: Request | None = None  # the pause during which commands are gathered
        # All entries up to this one are durable, by name too, and on their mirrors: this process has put a later entry
        # into the same directory, or has made sure. On a local disk a process may die after it has named an entry and
        # before it has synced the directory.
        self._durable_n = -1

    def submit(self, ticket: Ticket, now: Now) -> None:
        """Queue the command of `ticket`, and take all steps that are possible now."""
        self.submit_all((ticket,), now)

    def submit_all(self, tickets: Iterable[Ticket], now: Now) -> None:
        """Submit commands together, so that one entry can take them all."""
        self._queue.extend(tickets)
        if self._look is not None and self._gathering.is_complete(len(self._queue)):
            self._pending.taken(self._look)
            self._look = None
        self._advance(now)

    def reply(self, request: Request, reply: Reply, now: Now) -> None:
        """Handle the reply to a request, and continue. A reply that is no longer expected is ignored."""
        handler = self._pending.taken(request)
        if handler is not None:
            handler(reply, now)
            self._advance(now)

    def recover(self, tickets: Iterable[Ticket], now: Now) -> None:
        """Start again with these tickets, after the caller of another ticket was interrupted.

        The interrupt may have come anywhere, even inside this machine. So every command of an entry that was sent is in
        doubt, and replies to earlier requests are ignored.
        """
        self._attempts.clear()
        self._pending.forget()
        self._caught_up = frozenset()
        self._queue = deque(ticket for ticket in tickets if not ticket.done)
        for ticket in self._queue:
            ticket.doubt()
        self._advance(now)

    def learn(self, head: Head) -> None:
        """Take over a head that another thread has read, unless it is older, or a request or attempt is pending."""
        if not self._pending and not self._attempts and head.n >= self.head.n:
            self.head = head

    # ---- the next step --------------------------------------------------------------------------

    def _advance(self, now: Now) -> None:
        """Take steps until a reply is needed or no command waits."""
        while self._may_decide():
            if not self._attempts and is_long_silent(self.head, self._known_ms, now):
                self._check_chain()
                return
            if self._gathers(now) or not self._decide(now):
                return

    def _may_decide(self) -> bool:
        """True if commands wait, and the next slot may be claimed for them.

        So it may if nothing is pending, or only one entry that `may_be_followed`.
        """
        if not self._queue:
            return False
        if not self._attempts:
            return not self._pending
        return len(self._attempts) == 1 and self._attempts[0].may_be_followed(len(self._queue))

    # ---- deciding -------------------------------------------------------------------------------

    def _decide(self, now: Now) -> bool:
        """Decide the waiting commands on the newest head, and start the next step.

        Returns True if the next commands may be decided at once, False if a reply must come first.
        """
        confirmed = not self._attempts
        head = self.head if confirmed else self._attempts[-1].after
        if is_fenced(head.state.coordinator, self.author):
            if confirmed:
                self._fail(list(self._queue), not_in_force(head.state.coordinator, self.author))
            return False
        if entry_block(head.n + 1) != entry_block(head.n) and self._durable_n < head.n and confirmed:
            self._make_durable()  # no later put syncs the directory of that entry
            return False
        if head.state.lowers_copies and self._durable_n < head.n:
            # Later entries need fewer mirrors, and no mirror is then checked for a restore's mark.
            if confirmed:
                self._make_durable()
            return False
        if not confirmed:
            self._attempts[-1].is_followed = True
        group = decide_group(head, fitting(self._queue), now.wall_ms, confirmed=confirmed)
        if group.rests_on > self._durable_n:
            self._make_durable()
            return False
        if group.committed:
            self._read_back(group.committed)
            return False
        if not self._caught_up.issuperset(ticket for ticket, _ in group.refused):
            self._follow(caught_up(self.head, self._url), group.tickets)
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
        """Remove `tickets`, which are at the front of the queue, if they are done or in an entry. The others stay."""
        for _ in tickets:
            self._queue.popleft()
        self._queue.extendleft(ticket for ticket in reversed(tickets) if not ticket.done and not ticket.sent)

    # ---- large commands -------------------------------------------------------------------------

    def _store(self, tickets: Sequence[Ticket]) -> None:
        """Put the bodies of large commands, each as an object of its own, before an entry names them."""
        for ticket in tickets:
            stored = stored_body(ticket.submission, ticket.deadline_ms, ticket.timeout_ms, self._url)
            self._pending.run(stored, partial(self._stored, ticket))

    def _stored(self, ticket: Ticket, outcome: CommandBody | SparklogError, now: Now) -> None:
        if isinstance(outcome, CommandBody):
            ticket.body = outcome
        else:
            self._fail([ticket], outcome)

    # ---- claiming -------------------------------------------------------------------------------

    def _claim(self, group: CommandGroup, now: Now) -> None:
        """Make one entry of the group's decided commands, and begin to claim its slot."""
        body = group.end_entry(self.author, now.nonce)
        # No append may fail early because another caller has a shorter timeout.
        patient = max((ticket for ticket, _ in group.decided), key=lambda ticket: ticket.deadline_ms)
        claim = Claim(group.at.n, body, patient.deadline_ms, patient.timeout_ms, self._url)
        attempt = Attempt(claim, group.at, group.draft.head(), group.decided, now.monotonic_ms)
        self._attempts.append(attempt)
        for ticket, _ in group.decided:
            ticket.sent = True
        self._caught_up = frozenset()
        self._pending.run(claim.steps(), partial(self._claimed, attempt))

    def _claimed(self, attempt: Attempt, outcome: Won | Lost | Voided | SparklogError, now: Now) -> None:
        attempt.outcome = outcome
        self._end_attempts(now)

    def _end_attempts(self, now: Now) -> None:
        """Act on the outcomes of the attempts, always in the order of their slots."""
        while self._attempts and (outcome := self._attempts[0].outcome) is not None:
            self._known_ms = now.monotonic_ms
            match outcome:
                case Won() if not self._attempts[0].is_mirrored and self._mirrors_wanted(self._attempts[0].after.state):
                    self._mirror(self._attempts[0])
                    return
                case Won():
                    self._acknowledge(self._attempts.popleft(), now)
                case Lost():
                    first = self._give_up()
                    self._after_lost(first, outcome.body, now)
                case Voided():
                    self._give_up(in_doubt=True)
                    self._follow(caught_up(self.head, self._url, reload=True), list(self._queue))
                case SparklogError() as error:
                    first = self._give_up()
                    self._fail([ticket for ticket, _ in first.decided], error)

    def _mirror(self, attempt: Attempt) -> None:
        """Put an entry that has won its slot on mirrors. Its commands are acknowledged once the mirrors have it."""
        if attempt.is_mirroring:
            return
        attempt.is_mirroring = True
        patient_ms = max(ticket.deadline_ms for ticket, _ in attempt.decided)
        self._pending.run(mirrored(attempt.after, attempt.claim.body, patient_ms), partial(self._mirrored, attempt))

    def _mirrored(self, attempt: Attempt, outcome: SparklogError | None, now: Now) -> None:
        if outcome is None:
            attempt.is_mirrored = True
        else:
            self._attempts.popleft()
            if attempt.after.n > self.head.n:
                self.head = attempt.after
            self._fail([ticket for ticket, _ in attempt.decided], outcome)
        self._end_attempts(now)

    def _acknowledge(self, attempt: Attempt, now: Now) -> None:
        if attempt.after.n > self.head.n:
            self.head = attempt.after
        results = [result_of(applied, attempt.at) for _, applied in attempt.decided]
        for (ticket, _), result in zip(attempt.decided, results, strict=True):
            ticket.sent = False
            ticket.result = result
            self.ended.append(ticket)
        self._durable_n = attempt.at.n
        self._lost_in_a_row = 0
        size = len(results)
        self.counts.count_entry(results)
        self._gathering.expect(size, len(self._queue), now.monotonic_ms - attempt.began_ms, now.monotonic_ms)

    def _give_up(self, *, in_doubt: bool = False) -> Attempt:
        """End all attempts, and queue their commands again. Return the oldest attempt.

        The commands of later attempts are in doubt, because their entries follow an entry that may not count. With
        `in_doubt`, those of the oldest attempt are in doubt as well.
        """
        first, *later = self._attempts
        self._attempts.clear()
        self._pending.forget()
        if not in_doubt:
            for ticket, _ in first.decided:
                ticket.sent = False
        again = [ticket for attempt in (first, *later) for ticket, _ in attempt.decided]
        for ticket in again:
            ticket.doubt()
        self._queue.extendleft(reversed(again))
        return first

    def _after_lost(self, attempt: Attempt, body: bytes, now: Now) -> None:
        """Follow the chain after another entry has won the slot of `attempt`. Then its commands are decided again."""
        self.counts.lost_slots += 1
        self._lost_in_a_row += 1
        tickets = [ticket for ticket, _ in attempt.decided]
        for ticket in tickets:
            if ticket.deadline_ms <= now.monotonic_ms:
                what = f"found every slot taken for {duration(ticket.timeout_ms)}"
                self._fail([ticket], RequestTimedOut(f"command {ticket.submission.command_id} {what}"))
        next_body = body if self.head.n == attempt.at.n - 1 else None
        many = self._lost_in_a_row % REST_AFTER == 0
        self._follow(caught_up(self.head, self._url, next_body=next_body), tickets, self._rest if many else None)

    def _fail(self, tickets: Iterable[Ticket], error: SparklogError) -> None:
        """End with `error` those of the tickets that have neither a result nor an error."""
        for ticket in tickets:
            if not ticket.done:
                ticket.fail(error)
                self.ended.append(ticket)
        self._queue = deque(ticket for ticket in self._queue if not ticket.done)

    # ---- gathering ------------------------------------------------------------------------------

    def _gathers(self, now: Now) -> bool:
        """Begin to wait for more commands, if that pays. Return True if so."""
        look_ms = None if self._attempts else self._gathering.look_ms(len(self._queue), now.monotonic_ms)
        if look_ms is None:
            return False
        self._look = Pause(look_ms)
        self._pending.ask(self._look, lambda reply, now: self._gathering.looked(len(self._queue), now.monotonic_ms))
        return True

    # ---- following ------------------------------------------------------------------------------

    def _follow(
        self, catch_up: ChainMachine[Head], tickets: Iterable[Ticket], then: Callable[[], None] | None = None
    ) -> None:
        """Read the chain to its end, then call `then`. If reading fails, `tickets` end with the error."""
        self._round = [ticket for ticket in tickets if not ticket.done]
        waiting = frozenset(self._queue)

        def followed(outcome: Head | SparklogError, now: Now) -> None:
            if isinstance(outcome, SparklogError):
                self._fail_round(outcome)
                return
            self.head, self._caught_up = outcome, waiting
            if then is not None:
                then()

        self._pending.run(catch_up, followed)

    def _rest(self) -> None:
        """Pause for REST_MS, so that other processes win slots too."""
        self._caught_up = frozenset()
        self._pending.ask(Pause(REST_MS), lambda reply, now: None)

    def _fail_round(self, error: SparklogError) -> None:
        self._fail(self._round, error)

    # ---- entries of others ----------------------------------------------------------------------

    def _make_durable(self) -> None:
        """Make the newest entry durable, and thereby all earlier ones. Put it on mirrors too, if any are wanted."""
        self._round = list(self._queue)
        patient_ms = max(ticket.deadline_ms for ticket in self._round)
        with_mirrors = self._mirrors_wanted(self.head.state) > 0
        self._pending.run(made_durable(self.head, patient_ms, with_mirrors=with_mirrors), self._made_durable)

    def _made_durable(self, outcome: int | SparklogError, now: Now) -> None:
        if isinstance(outcome, SparklogError):
            self._fail_round(outcome)
        else:
            self._durable_n = outcome

    # ---- earlier commits ------------------------------------------------------------------------

    def _read_back(self, committed: Sequence[tuple[Ticket, EntryNumber]]) -> None:
        """Answer commands that the chain has already applied, from the entries that applied them."""
        read = read_entries((n for _, n in committed), self._url)
        self._pending.run(read, partial(self._have_read_back, committed))

    def _have_read_back(
        self, committed: Sequence[tuple[Ticket, EntryNumber]], outcome: list[Entry] | SparklogError, now: Now
    ) -> None:
        """Set the results of commands that the chain has already applied. `outcome`: the entries that applied them.

        If a result is not in them, FLOOR may have passed its entry meanwhile. So the chain is read to its end, and the
        command is decided again. If the result is missing even then, the chain is damaged and the command fails.
        """
        if isinstance(outcome, SparklogError):
            outcome.landed = Landed.YES
            self._fail([ticket for ticket, _ in committed], outcome)
            return
        unread = answered(committed, outcome, self.head.state)
        self.ended.extend(ticket for ticket, _ in committed if ticket.done)
        self._queue = deque(ticket for ticket in self._queue if not ticket.done)
        if not self._caught_up.issuperset(ticket for ticket, _ in unread):
            self._follow(caught_up(self.head, self._url), [ticket for ticket, _ in unread])
            return
        for ticket, n in unread:
            self._fail([ticket], unreadable(ticket, n, self._url))

    # ---- after a silence ------------------------------------------------------------------------

    def _check_chain(self) -> None:
        """Catch up, and check that the address still has this chain. If not, the waiting commands fail."""
        self._follow(caught_up(self.head, self._url), self._queue, self._read_newest)

    def _read_newest(self) -> None:
        self._pending.run(same_chain(self.head, self._url), self._checked)

    def _checked(self, outcome: Head | SparklogError, now: Now) -> None:
        if isinstance(outcome, SparklogError):
            self._fail_round(outcome)
        else:
            self.head, self._known_ms = outcome, now.monotonic_ms
