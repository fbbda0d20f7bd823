"""What readers see while leaders change: the end never goes back, and no offset gets another value (H3)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import sparklog
from sparklog.chain.head import Head
from sparklog.client.bootstrap import init_cluster
from sparklog.client.plans.read_plan import plan_read
from sparklog.core.commands import (
    AgentDown,
    AgentUp,
    Command,
    Election,
    ElectLeaders,
    FenceStore,
    Move,
    MoveReplicas,
    NewStore,
    RegisterStore,
    ReplicaReport,
    ReportReplicas,
)
from sparklog.core.errors import DataLoss
from sparklog.core.replication.partition import Replication
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import PartitionIndex, StoreId, TopicId
from sparklog.options.typed import parse_read_options
from sparklog.storage.object_store import ObjectStore
from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import RandomSteps, reported

TOPIC, PARTITION = TopicId(1), PartitionIndex(0)
STORES = "abcd"
STEPS = 60


class Changing(RandomSteps):
    """Topic t on a, b and c of four stores, which are fenced, come back, copy, lead and go, as the dice say."""

    def __init__(self, seed: int, *, unclean: bool) -> None:
        super().__init__(seed)
        self.unclean = unclean
        self.written = 0
        root = uuid.uuid4().hex
        self.url = f"memory://{root}"
        init_cluster(self.url, stores={each: f"{self.url}-{each}" for each in STORES})
        self.cluster = sparklog.connect(self.url)
        self.cluster.create_topic("t", assignment=[["a", "b", "c"]])

    @property
    def state(self) -> ClusterState:
        return self.cluster.connection.follower.state

    def value(self) -> Replication:
        return self.state.partitions_of(self.state.topics[TOPIC])[0].replication

    def store(self) -> Store:
        return self.state.stores[StoreId(self.dice.choice(STORES))]

    def step(self) -> None:
        actions: list[tuple[float, Callable[[], object]]] = [
            (8, self.write),
            (4, self.copy_and_report),
            (2, lambda: self.submit(FenceStore(self.value().leader or self.store().store))),
            (3, self.register),
            (1, lambda: self.submit(AgentDown((each := self.store()).store, each.registration))),
            (2, lambda: self.submit(AgentUp((each := self.store()).store, each.registration))),
            (2, self.elect),
            (1, self.move),
        ]
        epoch = self.value().leader_epoch
        self.act(actions)
        self.counts["elections"] += self.value().leader_epoch - epoch
        self.counts["losses"] = len(self.value().lost)

    def submit(self, command: Command) -> None:
        self.cluster.submit(command)

    def write(self) -> None:
        values = [str(self.written + each) for each in range(self.dice.randint(1, 3))]
        self.written += len(values)
        self.cluster.append("t", pa.table({"value": values}), timeout_ms=1)

    def register(self) -> None:
        back = next((store for store in self.state.stores.values() if store.fenced), self.store())
        self.submit(RegisterStore(NewStore(back.store, back.url, back.incarnation)))

    def elect(self) -> None:
        store = self.dice.choice([None, *map(StoreId, STORES)])
        self.submit(ElectLeaders((Election(TOPIC, PARTITION, store),), unclean=self.unclean))

    def move(self) -> None:
        to = tuple(StoreId(each) for each in self.dice.sample(STORES, 3))
        self.submit(MoveReplicas((Move(TOPIC, PARTITION, to),)))

    def copy_and_report(self) -> None:
        """What the agent of a store does."""
        to, value = self.store(), self.value()
        if value.leader is None:
            return
        for key in self.opened(value.leader).list_keys("append/"):
            if not any(each.key == key.key for each in self.opened(to.store).list_keys(key.key)):
                self.opened(to.store).put_if_absent(key.key, bytes(self.opened(value.leader).get(key.key)))
        said = ReplicaReport(TOPIC, PARTITION, value.leader_epoch, value.version, value.next_offset)
        self.submit(ReportReplicas(to.store, to.registration, (said,)))

    def opened(self, store: StoreId) -> ObjectStore:
        return self.cluster.connection.stores(self.state).get(store)


class Reader:
    """A process of its own that reads now and then."""

    def __init__(self, url: str) -> None:
        self.cluster = sparklog.connect(url)
        self.end = 0
        self.values: dict[int, bytes] = {}

    def look(self, *, may_lose: bool) -> None:
        ends = (self.described_end(), self.planned_end(), self.read_end(may_lose=may_lose))
        for end in ends:
            assert end >= self.end, "the visible end went back"
            self.end = end

    def described_end(self) -> int:
        return self.cluster.describe("t").partitions[0].high_watermark

    def planned_end(self) -> int:
        """Spark's latest."""
        options = parse_read_options({"cluster": "/elsewhere", "subscribe": "t"})
        state = self.cluster.connection.newest_state()
        plan = plan_read(state, options, self.cluster.connection.stores(state))
        return max((each.end for task in plan.tasks for each in task), default=0)

    def read_end(self, *, may_lose: bool) -> int:
        """The default end of a scan, whose records are as they were."""
        end = self.described_end()
        try:
            found = self.cluster.read("t", partition=0)
        except DataLoss:
            if not may_lose:
                raise
            return end
        there = dict(zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True))
        for offset, value in self.values.items():
            assert there.get(offset) == value, f"offset {offset} has another value, or none"
        self.values = there
        return end


@pytest.fixture
def changing() -> Iterator[Callable[..., Changing]]:
    made: list[Changing] = []

    def make(seed: int, *, unclean: bool) -> Changing:
        made.append(Changing(seed, unclean=unclean))
        return made[-1]

    yield make
    for each in made:
        each.cluster.close()


# M: L-12
@pytest.mark.parametrize("unclean", [False, True], ids=["clean", "unclean"])
@random_runs((2, 3), campaign=[range(6)])
def test_the_end_that_a_reader_sees_never_goes_back(
    changing: Callable[..., Changing], unclean: bool, seeds: Seeds
) -> None:
    """Not even an unclean election lowers it: what it gave up is DATA_LOSS, and its offsets are never used again."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        log = changing(seed, unclean=unclean)
        often, seldom = Reader(log.url), Reader(log.url)
        with reported(log):
            for log.steps in range(STEPS):
                log.step()
                often.look(may_lose=unclean)
                if log.steps % 7 == 0:
                    seldom.look(may_lose=unclean)
            seldom.look(may_lose=unclean)
            assert seldom.end == often.end
            assert unclean or not log.counts["losses"]
        seen += log.counts
    assert seen["elections"] > 2 * seeds.least, seen
    assert seen["losses"] or not unclean, seen


# M: L-12
def test_a_process_never_goes_back_to_an_older_state(changing: Callable[..., Changing]) -> None:
    log = changing(0, unclean=False)
    log.write()
    follower = log.cluster.connection.follower
    newest = follower.head
    follower.publish(Head(ClusterState(n=newest.n - 1), "0" * 64))
    assert follower.head is newest
    assert log.cluster.describe("t").partitions[0].high_watermark == log.written
