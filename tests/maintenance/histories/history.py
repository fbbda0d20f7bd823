"""A random history of one topic with all of its maintenance: real jobs, writers and readers on stores in memory.

    a shape (stores, config) and a list of steps follow from the seed -> each step is played (`steps.py`), and then the
    model sees the log (`partition_model.py`) -> at the end everything comes to rest (`rest.py`)

Jobs, writers and whoever deletes records are processes (`processes.py`): one in three is killed at one of its requests,
one in three is held up there while other processes work. The clock stands until a step moves it. The details of a step
come from dice of its own, so steps can be left out and the others stay the same.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.errors import KeyNotFound, SparklogError
from sparklog.core.lookup import topic_of
from sparklog.core.placement.held_slices import holders_of, named_object
from sparklog.core.reading.plan import plan_range
from sparklog.core.state import ClusterState
from sparklog.core.types import OffsetRange, StoreId, TopicPartition
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.scan import scan
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.object_store import ObjectStore
from tests.kit.hand_clock import START_MS, HandClock
from tests.kit.kernel import Simulation, bunches, own_dice
from tests.maintenance.histories import rest, steps
from tests.maintenance.histories.late_reads import LateRead
from tests.maintenance.histories.partition_model import PartitionModel, Seen, Write
from tests.maintenance.histories.processes import Interruption, Processes, stores_of_processes
from tests.maintenance.histories.shape import PARTITIONS, TOPIC, LogShape, Step, meanwhile, steps_of
from tests.maintenance.histories.writes import COLUMNS, rows_of
from tests.maintenance.old_chain import small_blocks

T = TypeVar("T")
KINDS: Final = ("", "killed", "held up")


class Ran(NamedTuple, Generic[T]):
    """What became of a process: what it returned, or why it failed; neither if it was killed.

    `alone`: nothing came in between.
    """

    value: T | None
    error: SparklogError | None
    alone: bool


class History(Simulation):
    """One log, its model, and what has happened. `without`: the numbers of steps that are left out."""

    def __init__(self, seed: int, *, without: Collection[int] = ()) -> None:
        super().__init__(seed, without=without)
        self.shape = LogShape.of(own_dice(seed, "shape"))
        self.planned = steps_of(own_dice(seed, "steps"), self.shape)
        self.clock: HandClock = HandClock()
        self.processes = Processes(uuid.uuid4().hex)
        self.models = [PartitionModel(number, self.shape.rules()) for number in range(PARTITIONS)]
        self.writes: dict[str, Write] = {}
        self.reads: list[LateRead] = []
        self.damaged: dict[tuple[StoreId, str], bytes] = {}  # what was there before
        self._depth = 0

    def run(self) -> None:
        """Play all steps, and come to rest. Raises AssertionError if a promise is broken."""
        with stores_of_processes(self.clock), pytest.MonkeyPatch.context() as patch:
            small_blocks(patch)
            try:
                self._found()
                for number, step in enumerate(self.planned):
                    if number not in self.without:
                        self.play(step, f"{number}: ")
                self.note("comes to rest")
                rest.come_to_rest(self)
            finally:
                self.processes.forget()

    def parts(self) -> Iterator[Collection[object]]:
        """Steps in bunches, then one by one."""
        yield from bunches(range(len(self.planned)), len(self.planned) // 2, 2)

    def shown(self) -> str:
        return f"{self.shape}"

    def note(self, what: str) -> None:
        """Add to the trace."""
        self.trace.append(f"{self.clock.at_ms - START_MS:>8} {'    ' * self._depth}{what}")

    # ---- the cluster ----------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address of the cluster for those whom nothing befalls."""
        return f"memory://{self.processes.root}"

    def _found(self) -> None:
        stores = {store: store for store in self.shape.stores} if self.shape.is_replicated else None
        init_cluster(self.url, stores=stores, config=self.shape.cluster_config())
        self.cluster = self.connect(self.url)
        replicas = sorted(self.state().stores)
        self.cluster.create_topic(TOPIC, assignment=[replicas] * PARTITIONS, config=self.shape.config)
        self.writers = [self.connect(self.url) for _ in range(2)]  # they know what was when they were used last

    def connect(self, url: str) -> Cluster:
        """A connection that goes by the history's clock."""
        cluster = sparklog.connect(url)
        cluster.connection.committer.clock = self.clock
        return cluster

    def state(self) -> ClusterState:
        """The newest state."""
        return self.cluster.connection.follower.catch_up().state

    def stores(self) -> Stores:
        """The stores, for those whom nothing befalls."""
        return self.cluster.connection.stores(self.state())

    def key(self, number: int) -> TopicPartition:
        """A partition of the topic."""
        state = self.state()
        return TopicPartition(state.topic_ids[TOPIC], self.models[number].index)

    # ---- what is seen ---------------------------------------------------------------------------

    def observe(self, began_ms: int) -> None:
        """Let the models see the log as it is now. What has happened began at `began_ms`."""
        for model in self.models:
            model.see(self.seen(model.number), self.writes, began_ms, self.clock.at_ms)

    def seen(self, number: int) -> Seen:
        """A partition as a reader finds it now."""
        state, key = self.state(), self.key(number)
        partition = state.partitions[key]
        whole = OffsetRange(partition.log_start, partition.high_watermark)
        plan = plan_range(state, topic_of(state, TOPIC), number, whole)
        replan = self.cluster.connection.replan
        batches = scan(plan, self.stores(), COLUMNS, replan, fail_on_data_loss=False)
        rows = {offset: row for batch in batches for offset, row in rows_of(batch)}
        slices = tuple(state.slices.find(key, whole))
        return Seen(rows, partition.replication, state.cleaners.get(key), slices)

    def check_objects(self) -> None:
        """Every object that the chain counts on is there, at its length."""
        state, stores = self.state(), self.stores()
        for key, partition in state.partitions.items():
            for slice_ in state.slices.find(key, OffsetRange(partition.log_start, partition.next_offset)):
                object_ = named_object(state, slice_).object
                name = data_key(object_, TOPIC)
                for store in holders_of(state, slice_):
                    for each, size in ((name, object_.size_bytes), (index_key(name), object_.index_size_bytes)):
                        if (store, each) not in self.damaged:
                            found = _body(stores.get(store), each)
                            assert found is not None, f"7: {each} on {store} is lost, {slice_} needs it"
                            assert len(found) == size, f"7: {each} on {store} has {len(found)} bytes, wanted {size}"

    def forget_repaired(self) -> None:
        """Drop from `damaged` what the log does not need any more, or is as it was."""
        state, stores = self.state(), self.stores()
        names = {data_key(each.object, TOPIC) for each in state.objects if each.number not in state.retired}
        for (store, name), body in list(self.damaged.items()):
            is_needed = name in names or name.removesuffix(".index") + ".arrow" in names
            if not is_needed or _body(stores.get(store), name) == body:
                del self.damaged[store, name]

    # ---- what happens ---------------------------------------------------------------------------

    def play(self, step: Step, prefix: str = "") -> None:
        """Play a step, and look what became of the log."""
        began_ms = self.clock.at_ms
        self.note(f"{prefix}{step.name}")
        steps.STEPS[step.name](self, random.Random(step.dice))
        self.counts[step.name] += 1
        self.observe(began_ms)
        if not self._depth:
            self.check_objects()

    def in_process(self, dice: random.Random, act: Callable[[str], T]) -> Ran[T]:
        """Let a process of its own act, with its address of the cluster; maybe it is killed or held up.

        An error of one to which nothing happened is raised.
        """
        interruption = self._interruption(dice)
        if interruption is not None:
            self.note(f"  is to be {interruption}")
        nested = meanwhile(dice, self.shape)
        process = self.processes.begin(interruption, lambda: self._meanwhile(nested))
        try:
            value = process.run(lambda: act(self.processes.url(process)))
        except SparklogError as error:
            if not process.was_interrupted:
                raise
            self.note(f"  {error} (landed: {error.landed.name})")
            return Ran(None, error, alone=False)
        if process.was_interrupted and interruption is not None:
            self.counts[interruption.kind] += 1
            self.note(f"  was {interruption.kind}")
        return Ran(value, None, not process.was_interrupted)

    def _interruption(self, dice: random.Random) -> Interruption | None:
        kind = dice.choices(KINDS, (1, 1, 1) if not self._depth else (4, 1, 0))[0]
        counted = dice.choices(("entries", "data", "all"), (3, 5, 1))[0]
        at = 1 + int(dice.expovariate(1 / (1 if counted == "entries" else dice.choice((2, 10, 40)))))
        after = dice.random() < 0.5
        return Interruption(at, kind, after, counted) if kind else None

    def _meanwhile(self, nested: list[Step]) -> None:
        self._depth += 1
        try:
            for step in nested:
                self.play(step)
        finally:
            self._depth -= 1


def _body(store: ObjectStore, key: str) -> bytes | None:
    try:
        return bytes(store.get(key))
    except KeyNotFound:
        return None
