"""A seeded simulation of several processes at one chain, on the real state machines, in one thread.

There are writers, readers, and a keeper that writes snapshots and deletes old blocks and snapshots. A request of a
process is a call on its way: dice decide whether and when it reaches the store, when its reply comes back and what the
reply says. A put whose sender has given up may land much later. Processes die, callers are interrupted, clocks jump.
The same seed always gives the same run; `trace` says what happened. `check` compares the answers that authors got with
what is in the store.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sparklog.chain import snapshot
from sparklog.chain.catch_up import CatchUp
from sparklog.chain.chunks import Chunk
from sparklog.chain.entry import Author
from sparklog.chain.group import Ticket
from sparklog.chain.group_commit import GroupCommit
from sparklog.chain.head import Head
from sparklog.chain.old_snapshots import decide_old, find
from sparklog.chain.requests import Get, GetMany, LoadSnapshot, Now, Pause, Put, Request
from sparklog.core.commands import (
    Append,
    Command,
    CreateCluster,
    CreateTopic,
    NewStore,
    PartitionEpoch,
    RaiseFloor,
    ReportJob,
    Submission,
)
from sparklog.core.errors import KeyExists, KeyNotFound, Landed, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.core.invariants import check as check_invariants
from sparklog.core.records import CommandResult
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewObject,
    NewSlice,
    ObjectKind,
    Offset,
    OffsetRange,
    PartitionIndex,
    StoreId,
    TopicId,
    TopicPartition,
    UploadId,
)
from sparklog.storage.keys import LOG, entry_block, entry_key, parse_entry_key, void_key
from sparklog.storage.object_store import StoredKey
from tests.core.state_contents import contents

TOPIC = TopicId(1)
URL = "memory://simulated"
WRITERS = 3
READERS = 2
TIMEOUT_MS = 10_000
BLOCK = 2  # entries


class Objects:
    """What the store holds: objects by key."""

    url = URL

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}

    def put_if_absent(self, key: str, body: Any) -> None:
        if key in self.bodies:
            raise KeyExists(key)
        self.bodies[key] = bytes(body)

    def get(self, key: str) -> memoryview:
        if key not in self.bodies:
            raise KeyNotFound(key)
        return memoryview(self.bodies[key])

    def size(self, key: str) -> int:
        return len(self.get(key))

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        keys = sorted(key for key in self.bodies if key.startswith(prefix))
        return iter([StoredKey(key, len(self.bodies[key]), 0) for key in keys])

    def first_key_after(self, prefix: str, key: str) -> str | None:
        return min((each for each in self.bodies if each.startswith(prefix) and each > key), default=None)


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
        command = self.submission.command
        assert isinstance(command, Append)
        return command.objects[0].upload_id

    @property
    def is_open(self) -> bool:
        return self.ticket is None and (self.told is None or isinstance(self.told, OutcomeUnknown))


@dataclass(eq=False)
class Process:
    """One process: a machine that commits, or one that reads, or steps of its own that put and delete."""

    name: str
    head: Head = field(default_factory=Head)
    commits: GroupCommit | None = None
    reads: CatchUp | None = None
    steps: Generator[Request, object, None] | None = None
    error: SparklogError | None = None
    chunks: dict[str, Chunk] = field(default_factory=dict)
    snapshot_n: int = -1


@dataclass
class World:
    """Everything, and the dice. `lies` replaces replies, to remove a guard."""

    seed: int
    start: tuple[dict[str, bytes], Head]
    lies: Callable[[Request, object], object] = lambda request, reply: reply
    other: tuple[dict[str, bytes], Head] | None = None  # a chain that may be created in the place of this one
    faults: float = 0.08
    trace: list[tuple[object, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.store = Objects()
        self.store.bodies.update(self.start[0])
        self.now_ms = 1_700_000_000_000
        self.calls: list[Call] = []
        self.late: list[Put] = []  # puts whose senders were told OutcomeUnknown
        self.attempts: list[Attempt] = []
        self.vacuumed: set[UploadId] = set()
        self.deleted_blocks = self.old_deleted = 0
        self.drawn = 0
        self.calm = False
        self.writers = [self._writer(f"w{number}") for number in range(WRITERS)]
        self.readers = [Process(f"r{number}", self.start[1]) for number in range(READERS)]
        self.keeper = Process("k", self.start[1])
        self.asleep: Process | None = None
        self.wiped_at: int | None = None

    # ---- running --------------------------------------------------------------------------------

    def run(self, events: int) -> None:
        """Let things happen, then let everybody finish undisturbed."""
        for _ in range(events):
            self._something_happens()
        self.calm, self.asleep = True, None
        while self.late:
            self._land()
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
        if self.calls and at < 0.72:
            call = self.dice.choice(self.calls)
            if call.process is self.asleep:
                return
            if not call.answered:
                self._reach(call)
            if call.answered and self.dice.random() < 0.7:
                self._answer(call)
        elif at < 0.86:
            self._somebody_writes()
        elif at < 0.89:
            self._read(self.dice.choice(self.readers))
        elif at < 0.93:
            self._keep()
        elif at < 0.94:
            self._interrupt()
        elif at < 0.95:
            self._die(self.dice.randrange(WRITERS))
        elif at < 0.97:
            self._sleep()
        elif at < 0.975 and self.other is not None and self.wiped_at is None:
            self._wipe(self.other)
        elif self.late:
            self._land()
        else:
            self.now_ms += self.dice.choice((5, 500, 15_000))

    def _note(self, *what: object) -> None:
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
            if self._goes_wrong():
                call.reply, call.answered = StoreUnavailable(key), True
            else:
                call.parts.append(self.store.bodies.get(key))
                call.answered = len(call.parts) == len(request.keys)
                call.reply = call.parts
        else:
            call.reply, call.answered = self._done(request), True
        if call.answered:
            call.reply = self.lies(request, call.reply)
            self._note(call.process.name, type(request).__name__, getattr(request, "key", ""), _shown(call.reply))

    def _done(self, request: Request) -> object:
        try:
            match request:
                case Put():
                    self._put(request)
                    return None
                case Get():
                    if self._goes_wrong():
                        raise StoreUnavailable(request.key)
                    return self.store.get(request.key)
                case LoadSnapshot():
                    if self._goes_wrong():
                        raise StoreUnavailable("snapshot")
                    loaded = snapshot.load_newest(self.store)  # type: ignore[arg-type]
                    return None if loaded is None else Head(loaded[1], loaded[0].entry_hash)
                case Pause():
                    self.now_ms += int(request.longest_ms)
                    return None
                case _:
                    raise TypeError(request)
        except SparklogError as error:
            return error

    def _put(self, request: Put) -> None:
        if not self._goes_wrong():
            self.store.put_if_absent(request.key, request.body)
            return
        match self.dice.randrange(5):
            case 0:  # the reply is lost
                self._try(request)
                raise OutcomeUnknown(request.key)
            case 1:  # the request is lost
                raise OutcomeUnknown(request.key)
            case 2:  # the request lands late
                self.late.append(request)
                raise OutcomeUnknown(request.key)
            case 3:  # the store repeats it, and refuses the repeat
                self._try(request)
                raise KeyExists(request.key)
            case _:
                raise StoreUnavailable(request.key)

    def _try(self, request: Put) -> None:
        if request.key not in self.store.bodies:
            self.store.put_if_absent(request.key, request.body)

    def _goes_wrong(self) -> bool:
        return not self.calm and self.dice.random() < self.faults

    def _land(self) -> None:
        request = self.late.pop(self.dice.randrange(len(self.late)))
        self._note("late", request.key, request.key not in self.store.bodies)
        self._try(request)

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
                self._note(process.name, "told", each.submission.command_id[-4:], _shown(each.told))
                each.ticket = None

    def _somebody_writes(self) -> None:
        process = self.dice.choice(self.writers)
        machine = process.commits
        assert machine is not None
        open_ones = [each for each in self.attempts if each.is_open]
        kind = self.dice.random()
        if open_ones and kind < 0.35:
            self._submit(self.dice.choice(open_ones), process)
        elif kind < 0.40:
            floor = EntryNumber(max(0, machine.head.n - self.dice.randrange(6)))
            self._submit_floor(process, floor)
        else:
            n0 = EntryNumber(max(machine.head.n - self.dice.choice((0, 0, 3)), 0))  # uploaded then, begun now
            begun = EntryNumber(max(machine.head.n, 0))
            command = one_object(n0, UploadId(self._id()), PartitionIndex(self.dice.randrange(2)))
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
        self._note(process.name, "submit", submission.command_id[-4:])
        machine.submit(attempt.ticket, self._now())
        self._go_on(process)

    def _submit_floor(self, process: Process, floor: EntryNumber) -> None:
        machine = process.commits
        assert machine is not None
        submission = Submission(CommandId(self._id()), EntryNumber(max(machine.head.n, 0)), RaiseFloor(floor))
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
            self._note(process.name, "interrupted", gone.submission.command_id[-4:])
            others = [each.ticket for each in waiting if each.writer is process and each.ticket is not None]
            self.calls = [each for each in self.calls if each.process is not process or self._left_behind(each)]
            process.commits.recover(others, self._now())
            self._go_on(process)

    def _left_behind(self, call: Call) -> bool:
        """Drop a call whose caller went away or died. If it is a put, it may still be on its way."""
        if isinstance(call.request, Put) and not call.answered and self.dice.random() < 0.5:
            self.late.append(call.request)
        return False

    def _die(self, number: int) -> None:
        gone = self.writers[number]
        self._note(gone.name, "dies")
        self.calls = [each for each in self.calls if each.process is not gone or self._left_behind(each)]
        for each in self.attempts:
            if each.writer is gone:
                each.ticket = None
        self.writers[number] = self._writer(gone.name)

    # ---- readers, snapshots, deletion -----------------------------------------------------------

    def _read(self, process: Process) -> None:
        if process.reads is None and process.steps is None and process.error is None:
            process.reads = CatchUp(process.head, URL)
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
        self._note(process.name, "read", process.head.n, _shown(step))

    def _keep(self) -> None:
        """Start to read, write a snapshot and delete what is old, one after the other, unless that is under way."""
        if self.keeper.steps is None:
            self.keeper.steps = self._keeping()
            self._step(self.keeper, None)

    def _step(self, process: Process, reply: object) -> None:
        assert process.steps is not None
        try:
            step = process.steps.send(reply)
        except StopIteration:
            process.steps = None
            return
        self.calls.append(Call(process, step))

    def _keeping(self) -> Generator[Request, object, None]:
        keeper = self.keeper
        machine = CatchUp(keeper.head, URL)
        step: Request | Head | SparklogError = machine.start()
        while isinstance(step, Request):
            step = machine.reply((yield step))
        if isinstance(step, SparklogError):
            keeper.error = None if isinstance(step, StoreUnavailable) else step
            return
        keeper.head = step
        if step.n > keeper.snapshot_n + 1 and not (yield from self._written_snapshot(step)):
            return
        yield from self._deleted()

    def _written_snapshot(self, head: Head) -> Generator[Request, object, bool]:
        prepared = snapshot.prepare(head.state.fork(), head.entry_hash, dict(self.keeper.chunks))
        for key, body in snapshot.objects_of(prepared):
            if not isinstance((yield Put(key, body)), KeyExists | None):
                return False
        assert not snapshot.missing_chunks(self.store, prepared.manifest)  # type: ignore[arg-type]
        self.keeper.chunks = snapshot.known_chunks(prepared.manifest)
        self.keeper.snapshot_n = prepared.manifest.n
        self._note("snapshot", prepared.manifest.n)
        return True

    def _deleted(self) -> Generator[Request, object, None]:
        """Delete old blocks by DESIGN 3, and do what vacuum does: uploads below FLOOR that no state names go.

        A block goes once the next block is complete and covered by a snapshot, and FLOOR has passed the block, so that
        results can be read back. The mark is put first, then the entries are deleted.
        """
        keeper = self.keeper
        while entry_block(min(keeper.snapshot_n - BLOCK, keeper.head.state.floor)) > self.deleted_blocks:
            block = self.deleted_blocks
            if not isinstance((yield Put(void_key(block), b"")), KeyExists | None):
                return
            self.deleted_blocks += 1
            for n in range(block * BLOCK, (block + 1) * BLOCK):
                self.store.bodies.pop(entry_key(n), None)
                yield Pause(0)
        old = decide_old(find(self.store))  # type: ignore[arg-type]
        for each in old.in_order():
            self.store.bodies.pop(each.key, None)
            self.old_deleted += 1
            yield Pause(0)
        named = {each.object.upload_id for each in keeper.head.state.objects}
        for attempt in self.attempts:
            command = attempt.submission.command
            assert isinstance(command, Append)
            if command.objects[0].n0 < keeper.head.state.floor and attempt.upload_id not in named:
                self.vacuumed.add(attempt.upload_id)

    def _sleep(self) -> None:
        """Hold a process up, or let it go on. Its requests reach nobody meanwhile."""
        self.asleep = self.dice.choice((*self.writers, *self.readers)) if self.asleep is None else None

    def _wipe(self, other: tuple[dict[str, bytes], Head]) -> None:
        """Clear the place, and create another chain there. Readers of the old one do not know."""
        self._note("wiped")
        self.wiped_at = max(parse_entry_key(key) for key in self.store.bodies if key.startswith(LOG))
        self.store.bodies = dict(other[0])
        self.start = other
        self.calls = [each for each in self.calls if each.process in self.readers]
        self.late.clear()
        self.attempts.clear()
        self.deleted_blocks = 0
        self.writers = [self._writer(each.name) for each in self.writers]
        self.keeper = Process("k", other[1])

    # ---- what must hold -------------------------------------------------------------------------

    def check(self) -> None:
        """A process that opens the chain now reads what everybody was told. Raises AssertionError."""
        reader = self._read_now(Head() if self.seed % 4 == 0 else self.start[1])
        if self.seed % 4 == 0:
            check_invariants(reader.state)
        wanted = contents(reader.state)
        old = self.readers if self.wiped_at is not None else []
        for process in old:
            assert process.head.n <= self.wiped_at, f"{process.name} follows another chain than its own"  # type: ignore[operator]
        writer, *_ = self.dice.sample(self.writers, WRITERS)
        reader_too, *_ = self.dice.sample(self.readers, READERS)
        for process in (writer, reader_too) if not old else (writer,):
            assert process.error is None, f"{process.name}: {process.error}"
            head = process.commits.head if process.commits is not None else process.head
            assert contents(self._read_now(head).state) == wanted, f"{process.name} reads another log"
        starts: dict[UploadId, int] = {}
        for partition in (PartitionIndex(0), PartitionIndex(1)):
            key = TopicPartition(TOPIC, partition)
            end = reader.state.partitions[key].next_offset
            for each in reader.state.slices.find(key, OffsetRange(Offset(0), end)):
                named = reader.state.objects.get(each.object_number)
                assert named is not None
                assert named.upload_id not in starts, f"{named.upload_id} is there twice"
                assert named.upload_id not in self.vacuumed, f"{named.upload_id} is named, and its bytes were vacuumed"
                starts[named.upload_id] = each.start
        for attempt in self.attempts:
            told = attempt.told
            if isinstance(told, CommandResult):
                start = told.ranges[0].start
                assert starts.get(attempt.upload_id) == start, f"{attempt.upload_id} was acknowledged at {start}"
            elif isinstance(told, SparklogError) and told.landed is Landed.NO and attempt.tries == 1:
                assert attempt.upload_id not in starts, f"{attempt.upload_id} landed, its author was told {told}"

    def _read_now(self, head: Head) -> Head:
        """What a process with this head reads when nothing goes wrong."""
        machine = CatchUp(head, URL)
        step: Request | Head | SparklogError = machine.start()
        while isinstance(step, Request):
            if isinstance(step, GetMany):
                reply: object = [self.store.bodies.get(key) for key in step.keys]
            else:
                reply = self._done(step)
            step = machine.reply(self.lies(step, reply))
        if isinstance(step, SparklogError):
            raise AssertionError(f"a process that comes now can't read: {step}")
        return step


def _shown(reply: object) -> str:
    if isinstance(reply, CommandResult):
        return f"entry {reply.n}"
    if isinstance(reply, Head):
        return f"head {reply.n}"
    if isinstance(reply, list):
        return "".join("-" if each is None else "x" for each in reply)
    return type(reply).__name__


def one_object(n0: EntryNumber, upload_id: UploadId, partition: PartitionIndex) -> Append:
    """An append of one record."""
    named = NewObject(
        kind=ObjectKind.APPEND,
        n0=n0,
        upload_id=upload_id,
        topic_id=TOPIC,
        size_bytes=10,
        crc32c=1,
        index_size_bytes=50,
        index_crc32c=2,
        holders=(Holder(StoreId("a"), 0),),
    )
    return Append(
        (named,),
        (
            NewSlice(
                object_index=0,
                topic_id=TOPIC,
                partition=partition,
                records=1,
                position=0,
                length=10,
                first_batch=0,
                batches=1,
                min_timestamp_us=0,
                max_timestamp_us=0,
                producer=None,
            ),
        ),
        (PartitionEpoch(TOPIC, partition, LeaderEpoch(0)),),
    )


def new_chain(entries: int = 7, chain_id: str = "c" * 32) -> tuple[dict[str, bytes], Head]:
    """The objects and the head of a chain of this many entries, with topic 1 of two partitions; FLOOR is at 4."""
    world = World(0, ({}, Head()))
    world.calm = True
    process = world.writers[0]
    assert process.commits is not None
    made = (CreateCluster(chain_id, (NewStore(StoreId("a"), ".", "i"),)), CreateTopic("orders", 2, 1))
    reports = (ReportJob("roll", 0, at, 0, "") for at in range(entries - 3))
    commands: list[Command] = [*made, *reports, RaiseFloor(EntryNumber(4))]
    for command in commands:
        ticket = Ticket(Submission(CommandId(world._id()), EntryNumber(0), command), 10**15, TIMEOUT_MS)
        process.commits.submit(ticket, world._now())
        world._go_on(process)
        world._settle()
        assert ticket.result is not None, ticket.error
    return world.store.bodies, process.commits.head
