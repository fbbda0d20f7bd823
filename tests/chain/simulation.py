"""A seeded simulation of several processes at one chain, on the real state machines, in one thread.

There are writers, readers, a keeper that writes snapshots and deletes old ones, and a deleter of old blocks, which may
die anywhere and run again. A request of a process is a call on its way: dice decide whether and when it reaches the
store, when its reply comes back and what the reply says. A put whose sender has given up may land much later. Processes
die, callers are interrupted, clocks jump. The same seed always gives the same run; `trace` says what happened. `check`
in `simulated_promises.py` compares the answers that authors got with what is in the store.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import msgspec

from sparklog.chain.chain_requests import GetMany, Now, Pause, Put, Request
from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.commit.group_commit import GroupCommit
from sparklog.chain.follow.catch_up import caught_up
from sparklog.chain.head import Head
from sparklog.chain.snapshot import snapshot
from sparklog.chain.snapshot.chunks import Chunk
from sparklog.core.commands import (
    Append,
    Command,
    CreateCluster,
    CreateTopic,
    NewStore,
    RaiseFloor,
    ReportJob,
    Submission,
)
from sparklog.core.coordination import Author
from sparklog.core.errors import OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.core.records import CommandResult
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    NewObject,
    StoreId,
    UploadId,
)
from sparklog.storage.keys import LOG, block_entries, entry_block, entry_key, parse_entry_key, void_key
from tests.chain.chain_kit import append
from tests.chain.driven import Driven
from tests.chain.simulated_keeper import deleting, keeping
from tests.chain.simulated_store import URL, SimulatedStore
from tests.kit.hand_clock import START_MS
from tests.kit.kernel import Simulation

WRITERS = 3
READERS = 2
TIMEOUT_MS = 10_000
FAULTS = 0.08  # how many requests go wrong


@dataclass(eq=False)
class Call:
    """A request on its way. The `parts` of a read of many keys reach the store one by one."""

    process: Process
    request: Request
    reply: object = None
    answered: bool = False
    parts: list[bytes | None] = field(default_factory=list)


@dataclass(eq=False)
class Attempt:
    """An append, and the last answer that its author got; None if it got none, because it died or was interrupted."""

    submission: Submission
    told: CommandResult | SparklogError | None = None
    ticket: Ticket | None = None
    writer: Process | None = None
    tries: int = 0

    @property
    def upload_id(self) -> UploadId:
        return self._object.upload_id

    @property
    def uploaded_n0(self) -> EntryNumber:
        return self._object.n0

    @property
    def _object(self) -> NewObject:
        command = self.submission.command
        assert isinstance(command, Append)
        return command.objects[0]

    @property
    def is_open(self) -> bool:
        return self.ticket is None and (self.told is None or isinstance(self.told, OutcomeUnknown))


@dataclass(eq=False)
class Process:
    """One process: a machine that commits, or one that reads, or steps of its own that put and delete."""

    name: str
    head: Head = field(default_factory=Head)
    commits: GroupCommit | None = None
    reads: Driven[Head] | None = None
    steps: Generator[Request, object, None] | None = None
    error: SparklogError | None = None
    chunks: dict[str, Chunk] = field(default_factory=dict)
    snapshot_n: int = -1


class World(Simulation):
    """Everything, and the dice. `lies` replaces replies, to remove a guard.

    `other` is a chain that may be created in the place of this one.
    """

    def __init__(
        self,
        seed: int,
        start: tuple[dict[str, bytes], Head],
        *,
        events: int = 0,
        lies: Callable[[Request, object], object] = lambda request, reply: reply,
        other: tuple[dict[str, bytes], Head] | None = None,
    ) -> None:
        super().__init__(seed)
        self.start, self.events, self.lies, self.other = start, events, lies, other
        self.dice = random.Random(seed)
        self.store = SimulatedStore(self.dice, FAULTS)
        self.store.bodies.update(start[0])
        self.now_ms = START_MS
        self.calls: list[Call] = []
        self.attempts: list[Attempt] = []
        self.vacuumed: set[UploadId] = set()
        self.deleted_blocks: set[int] = set()
        self.old_deleted = 0
        self.drawn = 0
        self.writers = [self._writer(f"w{number}") for number in range(WRITERS)]
        self.readers = [Process(f"r{number}", self.start[1]) for number in range(READERS)]
        self.keeper = Process("k", self.start[1])
        self.deleter = Process("d")
        self.asleep: Process | None = None
        self.wiped_at: int | None = None

    # ---- running --------------------------------------------------------------------------------

    def run(self) -> None:
        """Let so many things happen, then let everybody finish undisturbed."""
        for _ in range(self.events):
            self._something_happens()
            self.steps += 1
        self.store.calm, self.asleep = True, None
        while self.store.late:
            self.note("late", *self.store.land())
        for _ in range(3):
            self._settle()
            for each in self.attempts:
                if each.is_open:
                    self._submit(each, self.dice.choice(self.writers))
        self._settle()

    def _settle(self) -> None:
        while self.calls:
            call = self.calls[0]
            if call.answered:
                self._answer(call)
            else:
                self._reach(call)

    def _something_happens(self) -> None:
        at = self.dice.random()
        if self.calls and at < 0.70:
            call = self.dice.choice(self.calls)
            if call.process is self.asleep:
                return
            if not call.answered:
                self._reach(call)
            if call.answered and self.dice.random() < 0.7:
                self._answer(call)
        elif at < 0.84:
            self._somebody_writes()
        elif at < 0.87:
            self._read(self.dice.choice(self.readers))
        elif at < 0.91:
            self._keep()
        elif at < 0.94:
            self._delete()
        elif at < 0.95:
            self._interrupt()
        elif at < 0.96:
            self._die(self.dice.randrange(WRITERS))
        elif at < 0.975:
            self._sleep()
        elif at < 0.98 and self.other is not None and self.wiped_at is None:
            self._wipe(self.other)
        elif self.store.late:
            self.note("late", *self.store.land())
        else:
            self.now_ms += self.dice.choice((5, 500, 15_000))

    def note(self, *what: object) -> None:
        """Add to the trace."""
        self.trace.append(what)

    def _id(self) -> str:
        self.drawn += 1
        return f"{self.seed:016x}{self.drawn:016x}"

    def _now(self) -> Now:
        return Now(self.now_ms, self.now_ms, self._id())

    # ---- calls ----------------------------------------------------------------------------------

    def _reach(self, call: Call) -> None:
        """The call reaches the store, or does not."""
        request = call.request
        if isinstance(request, GetMany):
            key = request.keys[len(call.parts)]
            if self.store.goes_wrong():
                call.reply, call.answered = StoreUnavailable(key), True
            else:
                call.parts.append(self.store.bodies.get(key))
                call.answered = len(call.parts) == len(request.keys)
                call.reply = call.parts
        elif isinstance(request, Pause):
            self.now_ms += int(request.longest_ms)
            call.reply, call.answered = None, True
        else:
            call.reply, call.answered = self.store.perform(request), True
        if call.answered:
            call.reply = self.lies(request, call.reply)
            self.note(call.process.name, type(request).__name__, getattr(request, "key", ""), _shown(call.reply))

    def _answer(self, call: Call) -> None:
        """The reply comes back."""
        self.calls.remove(call)
        process = call.process
        if process.commits is not None:
            process.commits.reply(call.request, call.reply, self._now())
            self._go_on(process)
        elif process.reads is not None:
            self._take(process, process.reads.reply(call.reply))
        elif process.steps is not None:
            self._step(process, call.reply)

    # ---- writers --------------------------------------------------------------------------------

    def _writer(self, name: str) -> Process:
        process = Process(name, self.start[1])
        process.commits = GroupCommit(Author("client", name), URL, self.start[1], self.now_ms)
        return process

    def _go_on(self, process: Process) -> None:
        """Send what the writer asks for, and take the answers that its callers get."""
        machine = process.commits
        assert machine is not None
        while machine.requests:
            self.calls.append(Call(process, machine.requests.popleft()))
        for each in self.attempts:
            if each.writer is process and each.ticket is not None and each.ticket.done:
                each.told = each.ticket.result or each.ticket.error
                self.note(process.name, "told", each.submission.command_id[-4:], _shown(each.told))
                each.ticket = None

    def _somebody_writes(self) -> None:
        process = self.dice.choice(self.writers)
        machine = process.commits
        assert machine is not None
        open_ones = [each for each in self.attempts if each.is_open]
        kind = self.dice.random()
        if open_ones and kind < 0.35:
            self._submit(self.dice.choice(open_ones), process)
        elif kind < 0.42:
            floor = EntryNumber(max(0, machine.head.n - self.dice.choice((0, 0, 1, 5))))
            self._submit_floor(process, floor)
        else:
            n0 = EntryNumber(max(machine.head.n - self.dice.choice((0, 0, 3)), 0))  # uploaded then, begun now
            begun = machine.head.state.n0
            command = append(n0=n0, upload_id=UploadId(self._id()), partition=self.dice.randrange(2))
            attempt = Attempt(Submission(CommandId(self._id()), begun, command))
            self.attempts.append(attempt)
            self._submit(attempt, process)

    def _submit(self, attempt: Attempt, process: Process) -> None:
        machine = process.commits
        assert machine is not None
        attempt.tries += 1
        attempt.told = None
        submission = msgspec.structs.replace(attempt.submission, in_doubt=attempt.tries > 1)
        attempt.ticket = Ticket(submission, self.now_ms + TIMEOUT_MS, TIMEOUT_MS)
        attempt.writer = process
        self.note(process.name, "submit", submission.command_id[-4:])
        machine.submit(attempt.ticket, self._now())
        self._go_on(process)

    def _submit_floor(self, process: Process, floor: EntryNumber) -> None:
        machine = process.commits
        assert machine is not None
        submission = Submission(CommandId(self._id()), machine.head.state.n0, RaiseFloor(floor))
        machine.submit(Ticket(submission, self.now_ms + TIMEOUT_MS, TIMEOUT_MS), self._now())
        self._go_on(process)

    def _interrupt(self) -> None:
        """A caller goes away; those that wait beside it go on."""
        waiting = [each for each in self.attempts if each.ticket is not None]
        if waiting:
            gone = self.dice.choice(waiting)
            process = gone.writer
            assert process is not None
            assert process.commits is not None
            gone.ticket = None
            self.note(process.name, "interrupted", gone.submission.command_id[-4:])
            others = [each.ticket for each in waiting if each.writer is process and each.ticket is not None]
            self.calls = [each for each in self.calls if each.process is not process or self._left_behind(each)]
            process.commits.recover(others, self._now())
            self._go_on(process)

    def _left_behind(self, call: Call) -> bool:
        """Drop a call whose caller went away or died. If it is a put, it may still be on its way."""
        if isinstance(call.request, Put) and not call.answered and self.dice.random() < 0.5:
            self.store.late.append(call.request)
        return False

    def _die(self, number: int) -> None:
        gone = self.writers[number]
        self.note(gone.name, "dies")
        self.calls = [each for each in self.calls if each.process is not gone or self._left_behind(each)]
        for each in self.attempts:
            if each.writer is gone:
                each.ticket = None
        self.writers[number] = self._writer(gone.name)

    # ---- readers, snapshots, deletion -----------------------------------------------------------

    def _read(self, process: Process) -> None:
        if process.reads is None and process.steps is None and process.error is None:
            process.reads = Driven(caught_up(process.head, URL))
            self.calls.append(Call(process, process.reads.start()))

    def _take(self, process: Process, step: Request | Head | SparklogError) -> None:
        if isinstance(step, Request):
            self.calls.append(Call(process, step))
            return
        process.reads = None
        if isinstance(step, Head):
            assert step.n >= process.head.n, "a reader goes back"
            process.head = step
        elif not isinstance(step, StoreUnavailable):
            process.error = step
        self.note(process.name, "read", process.head.n, _shown(step))

    def _keep(self) -> None:
        """Start to read, write a snapshot and delete what is old, one after the other; or go on with it."""
        if self.keeper.steps is None:
            self.keeper.steps = keeping(self)
            self._step(self.keeper, None)
        else:
            self._hurry(self.keeper)

    def _delete(self) -> None:
        """Start to delete old blocks. If that is under way, go on with it, or die."""
        if self.deleter.steps is None:
            self.deleter.steps = deleting(self)
            self._step(self.deleter, None)
        elif self.dice.random() < 0.9:
            self._hurry(self.deleter)
        else:
            self.deleter.steps = None
            self.calls = [each for each in self.calls if each.process is not self.deleter or self._left_behind(each)]
            self.note("d", "dies")

    def _hurry(self, process: Process) -> None:
        """Let a process take a few steps while nothing else happens."""
        for _ in range(self.dice.randrange(8)):
            for call in [each for each in self.calls if each.process is process]:
                if not call.answered:
                    self._reach(call)
                if call.answered:
                    self._answer(call)

    def _step(self, process: Process, reply: object) -> None:
        assert process.steps is not None
        try:
            step = process.steps.send(reply)
        except StopIteration:
            process.steps = None
            return
        self.calls.append(Call(process, step))

    def _sleep(self) -> None:
        """Hold a process up, or let it go on. Its requests reach nobody meanwhile."""
        self.asleep = self.dice.choice((*self.writers, *self.readers)) if self.asleep is None else None

    def _wipe(self, other: tuple[dict[str, bytes], Head]) -> None:
        """Clear the place, and create another chain there. Readers of the old one do not know."""
        self.note("wiped")
        self.wiped_at = max(parse_entry_key(key) for key in self.store.bodies if key.startswith(LOG))
        self.store.bodies = dict(other[0])
        self.start = other
        self.calls = [each for each in self.calls if each.process in self.readers]
        self.store.late.clear()
        self.attempts.clear()
        self.deleted_blocks.clear()
        self.deleter.steps = None
        self.writers = [self._writer(each.name) for each in self.writers]
        self.keeper = Process("k", other[1])


def _shown(reply: object) -> str:
    if isinstance(reply, CommandResult):
        return f"entry {reply.n}"
    if isinstance(reply, Head):
        return f"head {reply.n}"
    if isinstance(reply, list):
        return "".join("-" if each is None else "x" for each in reply)
    return type(reply).__name__


def new_chain(entries: int = 7, chain_id: str = "c" * 32) -> tuple[dict[str, bytes], Head]:
    """The objects and the head of a chain of this many entries, with topic 1 of two partitions, and a snapshot.

    FLOOR is 4, and the blocks before it are deleted.
    """
    world = World(0, ({}, Head()))
    world.store.calm = True
    process = world.writers[0]
    assert process.commits is not None
    made = (CreateCluster(chain_id, (NewStore(StoreId("a"), ".", "i"),)), CreateTopic("orders", 2, 1))
    reports = (ReportJob("roll", 0, at, 0, "{}") for at in range(entries - 3))
    commands: list[Command] = [*made, *reports, RaiseFloor(EntryNumber(4))]
    for command in commands:
        ticket = Ticket(Submission(CommandId(world._id()), EntryNumber(0), command), 10**15, TIMEOUT_MS)
        process.commits.submit(ticket, world._now())
        world._go_on(process)
        world._settle()
        assert ticket.result is not None, ticket.error
    head = process.commits.head
    for key, body in snapshot.objects_of(snapshot.prepare(head.state.fork(), head.entry_hash, {})):
        world.store.bodies[key] = body
    for block in range(entry_block(4)):  # a deleter was at work before
        world.store.bodies[void_key(block)] = b""
        for n in block_entries(block):
            del world.store.bodies[entry_key(n)]
    return world.store.bodies, head
