"""The terms of coordinators, as the observer sees them, and what coordinators say: checks 16 to 19 of `observer.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklog.chain.entry import Entry
from sparklog.core.commands import AgentDown, Submission
from sparklog.core.coordination import Author
from sparklog.core.records import (
    Appended,
    AppendedByReference,
    AppliedCommand,
    CoordinationClaimed,
    CoordinationResigned,
)
from sparklog.core.types import CommandId, StoreId
from sparklog.wire.messages import SubmitReply, SubmitRequest
from tests.sim.coordinators import SESSION_MS

if TYPE_CHECKING:
    from tests.sim.process import Process
    from tests.sim.world import World

SETTLED_MS = 4 * SESSION_MS  # after the last fault: somebody leads by then, and all agents are heard of
ANSWERED_MS = 2 * SESSION_MS  # in which a command has its answer then
LISTENED_MS = 2 * SESSION_MS // 3  # a pause of a third of a session, the time between two looks, goes unnoticed
SHOWN_MS = 2 * SESSION_MS
LATE_MS = 300  # of an entry of an idle leader: it looks, reads and writes


class Terms:
    """Who leads, by the entries that count; which commands were applied, and which were ignored."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.epoch = 0
        self.name = ""
        self.in_force = False
        self._applied: set[CommandId] = set()
        self._ignored: set[CommandId] = set()
        self._authors: dict[int, str] = {}  # by epoch
        self._heard_ms: dict[tuple[object, StoreId, int], int] = {}  # by coordinator's life; its own clock
        self._led_ms: dict[str, int] = {}  # since when each one leads; its own clock
        self._written_ms = 0  # when the leader's newest entry landed
        self._settled_ms: int | None = None

    def calm(self) -> None:
        """There are no more faults."""
        self._settled_ms = self.world.now_ms + SETTLED_MS

    @property
    def is_settled(self) -> bool:
        """Whether the faults are long over."""
        return self._settled_ms is not None and self.world.now_ms >= self._settled_ms

    @property
    def has_shown(self) -> bool:
        """Whether check 19 has had some time to find something."""
        return self._settled_ms is not None and self.world.now_ms >= self._settled_ms + SHOWN_MS

    # ---- entries --------------------------------------------------------------------------------

    def is_fenced(self, author: Author) -> bool:
        """Whether an entry of this author, as the next one, is to be ignored: rule C1, said once more."""
        if author.epoch == 0:
            return False
        return author.epoch < self.epoch or (author.epoch == self.epoch and not self.in_force)

    def entry(self, entry: Entry, *, fenced: bool) -> None:
        """An entry landed. Checks 16, 17 and 19."""
        epoch = entry.author.epoch
        ids = {command.command_id for command in entry.commands}
        # An election may forget an append, and then a retry is a first write again. Check 3 is for values. A CLAIM that
        # is repeated changes nothing, so the state does not keep its id. Check 16 is for epochs.
        others = {command.command_id for command in entry.commands if not _may_repeat(command)}
        if fenced:
            self.world.faults.count("fenced-entry")
            self._ignored |= ids
            return
        if epoch:
            name = self._authors.setdefault(epoch, entry.author.name)
            assert name == entry.author.name, f"16: {name} and {entry.author.name} wrote in epoch {epoch}"
        twice = self._applied & others
        assert not twice, f"17: entry {entry.n} applies {twice} once more"
        for command in entry.commands:
            for record in command.records:
                if isinstance(record, CoordinationClaimed):
                    self._claimed(record, entry.author)
                elif isinstance(record, CoordinationResigned):
                    assert record.epoch == self.epoch, f"16: epoch {record.epoch} is resigned in epoch {self.epoch}"
                    self.in_force = False
            if command.records:
                self._applied.add(command.command_id)
        if epoch == self.epoch > 0 and self.in_force:
            self.on_time()
            self._written_ms = self.world.now_ms

    def _claimed(self, record: CoordinationClaimed, author: Author) -> None:
        who = f"{record.name} claims epoch {record.epoch}"
        assert (author.name, author.epoch) == (record.name, record.epoch), f"16: {who} in an entry of {author}"
        if record.epoch == self.epoch:
            assert (self.in_force, self.name) == (True, record.name), f"16: {who}, {self.name} has it"
            return
        assert record.epoch == self.epoch + 1, f"16: {who} in epoch {self.epoch}"
        assert not self.is_settled, f"19: {who} without need, {self.name} leads"
        if self.in_force:
            self.world.faults.count("takeover")
        self.epoch, self.name, self.in_force = record.epoch, record.name, True
        self._written_ms = self.world.now_ms
        self._led_ms[record.name] = self._leader().monotonic_ms()

    def on_time(self) -> None:
        """The leader writes at least three entries a session, however idle the cluster is. Check 19."""
        if self.is_settled and self.in_force:
            late_ms = self.world.now_ms - self._written_ms
            assert late_ms <= self._third_ms() + LATE_MS, f"19: no entry of {self.name} for {late_ms} ms"

    def _third_ms(self) -> int:
        """A third of a session, by the clock of the leader."""
        return int(SESSION_MS / 3 / self._leader().rate)

    def _leader(self) -> Process:
        return next(each for each in self.world.processes if self.name.startswith(f"{each.name}-"))

    # ---- what coordinators say and do -----------------------------------------------------------

    def answers(self, process: Process, request: SubmitRequest, reply: SubmitReply) -> None:
        """A coordinator answers. Check 17."""
        assert reply.position >= request.seen, f"17: an answer of {reply.position} to one who has seen {request.seen}"
        (sent,), (outcome,) = request.commands, reply.outcomes
        if outcome.result is None:
            return
        command_id = sent.submission.command_id
        is_void = command_id in self._ignored and command_id not in self._applied
        assert not is_void, f"17: {process.name} acknowledges {command_id}, whose entry does not count"

    def answered(self, process: Process, submission: Submission, seen: int, reply: SubmitReply, began_ms: int) -> None:
        """A client has its answer. Checks 17 and 19."""
        assert reply.position >= seen, f"17: {process.name} had seen {seen}, the answer is of {reply.position}"
        took_ms = self.world.now_ms - began_ms
        late = self._settled_ms is not None and began_ms >= self._settled_ms and took_ms > ANSWERED_MS
        assert not late, f"19: {process.name} waits {took_ms} ms for {submission.command_id}"

    def heard(self, process: Process, store: StoreId, registration: int) -> None:
        """A coordinator has taken a heartbeat of the store, or has committed a write that reached it."""
        self._heard_ms[process.control, store, registration] = process.monotonic_ms()

    def taken_for_silent(self, process: Process, command: AgentDown) -> None:
        """A coordinator is about to say that an agent is silent. Check 18."""
        now_ms = process.monotonic_ms()
        place = f"the agent of {command.store}, says {process.name}"
        heard_ms = self._heard_ms.get((process.control, command.store, command.registration))
        silent_ms = None if heard_ms is None else now_ms - heard_ms
        assert silent_ms is None or silent_ms >= SESSION_MS, f"18: {place}, is silent for {silent_ms} ms"
        since_ms = self._led_ms[process.control.leadership.name] if heard_ms is None else heard_ms
        # Before a pause, and after it.
        listened_ms = max(0, process.paused_ms - since_ms) + now_ms - max(since_ms, process.woke_ms)
        assert listened_ms >= LISTENED_MS, f"18: {place}, which listens for {listened_ms} ms only"
        assert not self.is_settled, f"18: {place}, is silent without a fault"
        self.world.faults.count("silent-agent")


def _may_repeat(command: AppliedCommand) -> bool:
    return any(isinstance(record, Appended | AppendedByReference | CoordinationClaimed) for record in command.records)
