"""A simulated cluster: stores, processes, a clock that jumps from event to event, and one schedule for each seed.

The code under test is real: core, the chain's machines, data objects. Time, ids, dice and stores are the world's. See
`observer.py` for what is checked, `faults.py` for what goes wrong.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import msgspec

from sparklog.chain.entry import Entry
from sparklog.core.commands import CreateCluster, CreateTopic, DeleteTopic, NewStore, Submission
from sparklog.core.errors import SparklogError
from sparklog.core.records import CommandResult
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import StoreId
from sparklog.log.batch import BatchEncoder
from sparklog.storage.keys import INCARNATION
from tests.kit.hand_clock import START_MS
from tests.kit.kernel import SHOWN, Simulation, bunches, own_dice
from tests.sim import agents, compaction, coordinators, expiry, operator, readers, thief, upkeep, writers
from tests.sim.faults import Faults, planned, writers_of
from tests.sim.history import History, ranges_of
from tests.sim.observer import Observer
from tests.sim.process import Process, Steps
from tests.sim.stores import META, SimStore
from tests.sim.terms import Terms

STORES = tuple(map(StoreId, "abcd"))
CONFIG = {
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "50",
    "replica.lag.time.max.ms": "1000",
}
LED = (4, 5, 8, 9)  # a world has coordinators if its seed ends with one of these digits
LED_CONFIG = {"broker.session.timeout.ms": str(coordinators.SESSION_MS)}
THIEVES = (7, 9)  # somebody names uploads of others if it ends with one of these
COMPACTED = (2, 7)  # its topic is compacted, and records are deleted by offset, if it ends with one of these
SPAN_MS = 12_000  # how long faults go on
ANSWERED = 6  # writes that must be answered once there are no more faults
DRAIN_MS = 200_000  # how long a world may take to come to rest
DROPPED_AT_ONCE = 16  # incidents, when a history is shrunk
TOLD = ("is told", "refused", "misses", "read failed")  # lines of a history


@dataclass(frozen=True)
class ClusterShape:
    """What kind of cluster it is. `may_lose`: faults may take objects; `unclean`: elections may lose records."""

    partitions: int
    min_isr: int
    unclean: bool
    may_lose: bool

    @staticmethod
    def of(dice: random.Random) -> ClusterShape:
        """One in four may elect uncleanly; objects are lost only where min ISR is 2 and elections are clean."""
        unclean = dice.random() < 0.25
        min_isr = dice.choice((1, 1, 2)) if unclean else dice.choice((1, 2, 2, 2))
        return ClusterShape(dice.choice((1, 2, 3)), min_isr, unclean, may_lose=min_isr == 2 and not unclean)


class World(Simulation):
    """One cluster and one schedule. `without`: numbers of incidents and names of processes that are left out."""

    def __init__(
        self, seed: int, *, without: Collection[object] = (), mean_gap_ms: int = 200, most_steps: int = 1 << 40
    ) -> None:
        super().__init__(seed, without=without)
        self.most_steps = most_steps
        self.is_led = seed % 10 in LED
        self.is_compacted = seed % 10 in COMPACTED
        self.is_ahead = seed % 10 in expiry.AHEAD
        self.dice = own_dice(seed, "world")
        self.shape = ClusterShape.of(self.dice)
        self.now_ms = START_MS
        self.is_ending = False
        self.refusals: Counter[str] = Counter()
        self.encoder = BatchEncoder("none")  # not shared by worlds: padding may be what was in its memory before
        self.memory: dict[str, writers.Memory] = {}
        self.reads = self.rolled = self.compacted = self.vacuumed = self.marked = self.stolen = self.expired = 0
        self.acks = 0
        self._events: list[tuple[int, int, Process | None, int, bool, Callable[[], object]]] = []
        self._order = count()
        self._landing = 0  # calls on their way to a store
        self.stores = {name: SimStore(name) for name in (META, *STORES)}
        self.history = History()
        self.faults = Faults(self)
        self.processes: list[Process] = []
        self.terms = Terms(self)
        self.observer = Observer(self)
        self._found(without)
        for incident in planned(seed, SPAN_MS, mean_gap_ms, is_led=self.is_led):
            if incident.number not in without:
                self.at(incident.at_ms, partial(self.faults.happen, incident))

    # ---- the clock ------------------------------------------------------------------------------

    def at(
        self, delay_ms: int, act: Callable[[], object], process: Process | None = None, *, lands: bool = False
    ) -> None:
        """Do it after so many milliseconds; if it is for a process, only in its present life."""
        life = process.life if process is not None else 0
        self._landing += lands
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), process, life, lands, act))

    def step(self) -> None:
        """The next thing happens."""
        at_ms, _, process, life, lands, act = heapq.heappop(self._events)
        self.now_ms = max(self.now_ms, at_ms)
        self._landing -= lands
        self.steps += 1
        if process is not None:
            if process.life != life:
                return
            if process.is_paused:
                process.held.append(act)
                return
        act()

    def next_number(self) -> int:
        """A number that rises."""
        return next(self._order)

    def note(self, *what: object) -> None:
        """Add to the trace."""
        self.trace.append((self.now_ms - START_MS, *what))

    # ---- a run ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Let things happen for the span, then let everybody finish without faults. Raises AssertionError."""
        while self.now_ms < START_MS + SPAN_MS:
            self.step()
            if self.steps >= self.most_steps:
                return
        self._drain()

    def once_more(self, without: Collection[object]) -> World:
        return new_world(self.seed, without=without, most_steps=self.steps * 2)

    def parts(self) -> Iterator[Collection[object]]:
        """Incidents in bunches, then one by one, then processes."""
        happened = sorted({line[3] for line in self.trace if line[1] == "!" and len(line) > 3}, key=str)
        yield from bunches([number for number in happened if isinstance(number, int)], DROPPED_AT_ONCE, 4)
        yield from ([each.name] for each in self.processes if not each.name.startswith("agent"))

    def shown(self) -> str:
        return f"{self.shape}, {self.steps} steps"

    def story(self) -> Iterator[str]:
        """What went wrong, what was committed, who was told what."""
        told = [line for line in self.trace if line[1] in ("!", "=") or line[2] in TOLD]
        for at_ms, *what in told[-SHOWN:]:
            yield f"{at_ms:>8} " + " ".join(str(word)[:200] for word in what)

    def _drain(self) -> None:
        """Check 14."""
        self.faults.calm()
        self.note("!", "calm")
        self._process("healer", self._healing).start()
        until_ms = self.now_ms + DRAIN_MS
        enough = self.acks + (ANSWERED if writers_of(self) else 0)
        while self.acks < enough:
            assert self.now_ms < until_ms, f"14: {enough - self.acks} writes too few answered after {DRAIN_MS} ms"
            self.step()
        self.is_ending = True
        until_ms = self.now_ms + DRAIN_MS
        while not self._is_level():
            assert self.now_ms < until_ms, f"14: not at rest after {DRAIN_MS} ms: {self._unlevel()}"
            self.step()
        while self._landing:
            self.step()
        while self.is_led and not self.terms.has_shown:
            self.step()
        self.terms.on_time()
        done: list[str] = []
        for each in self.processes:
            if each.name.startswith("reader"):
                each.start()  # reads everything anew, from the newest snapshot
        self._read_everything(done)
        while not done:
            self.step()
        self.observer.sweep()

    def _read_everything(self, done: list[str]) -> None:
        def reading(process: Process) -> Steps:
            state = yield from process.catch_up()
            for key in sorted(state.partitions):
                yield from readers.read(process, state, key, everything=True)
            done.append(process.name)

        last = self._process("last-reader", reading)
        last.start()

    def _healing(self, process: Process) -> Steps:
        """The operator's care after the faults: every store is back, every partition has a leader."""
        while True:
            yield 500
            try:
                state = yield from process.catch_up()
                yield from operator.take_back(process, state)
                yield from operator.lead(process, state)
            except SparklogError as error:
                process.refused(error)

    def _is_level(self) -> bool:
        return self.steps % 50 == 0 and not self._unlevel()

    def _unlevel(self) -> list[str]:
        state = self.observer.head.state
        rough = [f"{each.store} is fenced" for each in state.stores.values() if each.fenced]
        for key, each in state.partitions.items():
            value = each.replication
            moves = value.adding or value.removing
            if value.leader is None or moves or value.isr != value.replicas or min(value.log_ends) < value.next_offset:
                rough.append(f"{key}: {value}")
        return rough

    # ---- who is there ---------------------------------------------------------------------------

    def _found(self, without: Collection[object]) -> None:
        """Create the cluster and a topic, then begin everybody's life."""
        founder = self._process("founder", self._founding)
        founder.start()
        while self.observer.head.n < 1:
            self.step()
        founder.crash()
        self.processes.clear()
        begin: dict[str, Callable[[Process], list[Steps]]] = {
            "writer-1": lambda process: [writers.plain_writer(process), writers.plain_writer(process)],
            "writer-2": lambda process: [writers.producer(process), writers.plain_writer(process)],
            "writer-3": lambda process: [writers.application(process)],
            "reader-1": lambda process: [readers.reader(process)],
            "operator": lambda process: [operator.operator(process)],
            "roller": lambda process: [upkeep.roller(process), upkeep.roller(process)],
            "retention": lambda process: [upkeep.retention(process)],
            "vacuum": lambda process: [upkeep.vacuum(process)],
            "keeper": lambda process: [upkeep.keeper(process)],
        }
        if self.is_compacted:
            begin["compactor"] = lambda process: [compaction.compactor(process)]
            begin["deleter"] = lambda process: [upkeep.deleter(process)]
        if self.seed % 10 in THIEVES:
            begin["thief"] = lambda process: [thief.thief(process)]
        if self.is_ahead:
            begin["committer"] = lambda process: [expiry.committer(process)]
        for name, tasks in begin.items():
            if name not in without:
                self._spawn(name, tasks)
        for store in STORES:
            self._spawn(f"agent-{store}", lambda process, store=store: [agents.agent(process, store)])
        if self.is_led:
            self._spawn_coordinators(without)

    def _spawn_coordinators(self, without: Collection[object]) -> None:
        """Two or three, whose clocks run at different speeds. Some start late: until then everybody commits."""
        dice = own_dice(self.seed, "coordinators")
        first_ms = dice.choice((0, 0, 3_000))
        for number in range(1, dice.choice((2, 3)) + 1):
            starts_ms = dice.choice((first_ms, first_ms, first_ms + 4_000))
            rate = dice.choice((0.8, 1.0, 1.25))
            if (name := f"coordinator-{number}") not in without:
                self._spawn(name, lambda process, ms=starts_ms: [coordinators.coordinator(process, ms)], rate)

    def at_address(self, address: str) -> Process:
        """Who is to be found there."""
        return next(each for each in self.processes if address == f"http://{each.name}")

    def deliver(self, process: Process, submission: Submission) -> Steps:
        """Bring a command to the coordinator in force."""
        return coordinators.delivered(process, submission)

    def errand(self, name: str, steps: Callable[[Process], Steps]) -> None:
        """Somebody comes, does something, and goes."""
        self._process(f"{name}-{self.next_number()}", steps).start()

    def _spawn(self, name: str, begin: Callable[[Process], list[Steps]], rate: float = 1.0) -> None:
        process = Process(self, name, begin)
        process.rate = rate
        if self.is_ahead and name in expiry.CLOCKS:
            process.wall_offset_ms = expiry.AHEAD_MS
        self.processes.append(process)
        process.start()

    def _process(self, name: str, steps: Callable[[Process], Steps]) -> Process:
        return Process(self, name, lambda process: [steps(process)])

    def _founding(self, process: Process) -> Steps:
        chain_id = process.new_id()
        new = tuple(NewStore(store, f"memory://{store}", self._mark(store, chain_id)) for store in STORES)
        config = CONFIG | (LED_CONFIG if self.is_led else {}) | (expiry.CONFIG if self.is_ahead else {})
        yield from process.submit(CreateCluster(chain_id, new, config))
        yield from process.submit(self._topic())

    def _topic(self) -> CreateTopic:
        config = {
            "min.insync.replicas": str(self.shape.min_isr),
            "unclean.leader.election.enable": str(self.shape.unclean).lower(),
            "retention.bytes": "30000",
            "file.delete.delay.ms": "2000",
            "rewrite.delete.delay.ms": "3000",
            "segment.bytes": "4000",
        }
        if self.is_compacted:
            config["cleanup.policy"] = "compact,delete"
        stores = self.dice.sample(STORES, 4)
        assignment = tuple(
            tuple(stores[(partition + replica) % 4] for replica in range(operator.RF))
            for partition in range(self.shape.partitions)
        )
        return CreateTopic("orders", config=config, assignment=assignment)

    def _mark(self, store: StoreId, chain_id: str) -> str:
        incarnation = f"{self.dice.getrandbits(128):032x}"
        body = msgspec.json.encode({"incarnation": incarnation, "chain_id": chain_id})
        self.stores[store].bodies[INCARNATION] = body
        return incarnation

    def add_store(self, store: StoreId, chain_id: str) -> str:
        """A new home of replicas, with its agent. Returns its incarnation."""
        if store in self.stores:  # an earlier try was not answered
            return str(msgspec.json.decode(self.stores[store].bodies[INCARNATION])["incarnation"])
        self.stores[store] = SimStore(store)
        self.observer.watch(store)
        self._spawn(f"agent-{store}", lambda process: [agents.agent(process, store)])
        return self._mark(store, chain_id)

    def recreate_topic(self, dice: random.Random) -> None:
        """Somebody deletes the topic, and creates one of the same name."""

        def recreating(process: Process) -> Steps:
            while True:
                try:
                    state = yield from process.catch_up()
                    for topic in list(state.topics):
                        yield from process.submit(DeleteTopic(topic))
                        self.faults.count("topic-recreated")
                        yield dice.choice((1, 300))
                    yield from process.submit(self._topic())
                    return
                except SparklogError as error:
                    process.refused(error)
                    if self.observer.head.state.topics:
                        return
                yield 200

        self._process(f"recreator-{dice.random()}", recreating).start()

    # ---- what others say ------------------------------------------------------------------------

    def entry_landed(self, entry: Entry) -> None:
        """For the trace."""
        for command in entry.commands:
            names = ", ".join(type(record).__name__ for record in command.records)
            self.note("=", entry.n, entry.author.name if hasattr(entry.author, "name") else "", names)

    def acknowledge(self, process: Process, write: writers.Write, result: CommandResult) -> None:
        """A writer has its answer: check 5."""
        if write.acks is Acks.NONE:
            return
        self.acks += 1
        state = self.observer.head.state
        self.note(process.name, "is told", [(each.partition, each.start, each.end) for each in result.ranges])
        for key, offsets in ranges_of(result).items():
            values = write.parts[key.partition]
            partition = state.partitions.get(key)
            for offset, value in zip(offsets, values, strict=True):
                known = self.history.values[key].get(offset)
                assert known == value, f"5: {process.name} wrote {value!r}, at {offset} of {key} is {known!r}"
                if partition is None or offset < partition.log_start or offset in self.history.forgotten[key]:
                    continue
                if write.acks is Acks.ALL:
                    assert partition.high_watermark > offset, f"5: {value!r} at {offset} is not visible: {partition}"
                    self.history.acknowledged[value] = "ALL"
                else:
                    self.history.acknowledged.setdefault(value, "LEADER")


def prepare(patch: Any) -> None:
    """Small blocks and caches, no threads: for all worlds of a test. `patch` is pytest's monkeypatch or the like."""
    from sparklog.agent import agent
    from sparklog.chain.commit import command_body, command_group
    from sparklog.chain.follow import catch_up
    from sparklog.chain.snapshot import old_snapshots, snapshot
    from sparklog.storage import keys
    from tests.faults.inline_pool import Inline

    patch.setattr(keys, "ENTRIES_PER_BLOCK", 8)
    patch.setattr(catch_up, "ROUND_ENTRIES", 4)
    patch.setattr(catch_up, "READ_WIDTH", 4)
    patch.setattr(old_snapshots, "KEPT", 1)
    patch.setattr(snapshot, "ThreadPoolExecutor", Inline)
    patch.setattr(command_body, "SLICES_INLINE", 2)
    patch.setattr(command_group, "SLICES_INLINE", 2)
    patch.setattr(agent, "EXAMINE_EVERY_MS", 1_500)


def new_world(seed: int, **how: Any) -> World:
    """A world without what an earlier one left behind in the process."""
    from sparklog.log.read import object_reader

    object_reader._cache = object_reader._IndexCache(64)
    return World(seed, **how)
