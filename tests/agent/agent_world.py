"""A cluster on three stores, and agents that are driven step by step, by a clock that stands until they wait."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from msgspec.structs import replace

import sparklog
from sparklog.agent.agent import Agent
from sparklog.agent.agent_requests import Note, Reply, Request
from sparklog.agent.run import perform
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import append_command
from sparklog.core.commands import Command, FenceStore, Submission
from sparklog.core.records import CommandResult
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state import ClusterState
from sparklog.core.types import ObjectNumber, Offset, OffsetRange, PartitionIndex, StoreId, TopicPartition
from sparklog.storage.keys import INCARNATION
from sparklog.storage.object_store import ObjectStore
from tests.client.replicated_cluster import come_back, objects, planned_write, store
from tests.core.replication.example_partition import ends, roles
from tests.kit.kernel import SeededDice
from tests.kit.log import values


@dataclass
class ReplicatedCluster:
    """Topic "t" with replicas on a, b and c, in this order."""

    cluster: Cluster

    @property
    def state(self) -> ClusterState:
        return self.cluster.connection.follower.catch_up().state

    def submit(self, command: Command) -> CommandResult:
        return self.cluster.submit(command)

    # ---- writes ---------------------------------------------------------------------------------

    def write(self, *values: str, on: str = "abc", partition: int | None = None, acks: Acks = Acks.ALL) -> None:
        """Upload to every store, name only those of `on`, and take away what the others got."""
        plan = planned_write(self.cluster)
        rows = pa.table({"value": list(values)})
        if partition is not None:
            rows = rows.append_column("partition", pa.array([partition] * len(values), pa.int32()))
        command = append_command(plan, [upload_task_rows(plan, rows.to_batches())])
        assert command is not None
        named = tuple(
            replace(each, holders=tuple(holder for holder in each.holders if holder.store in on))
            for each in command.objects
        )
        before = {name: self.objects(name) for name in "abc" if name not in on}
        self.cluster.connection.committer.submit(
            Submission(plan.command_id, plan.n0, replace(command, objects=named, acks=acks, pull=acks is not Acks.ALL))
        )
        for name in before:
            for key in self.objects(name):
                if any(each.upload_id in key for each in named):
                    self.store(name).delete(key)

    def values(self, partition: int = 0) -> list[str]:
        return values(self.cluster, partition)

    # ---- stores ---------------------------------------------------------------------------------

    def store(self, name: str) -> ObjectStore:
        return store(self.cluster, name)

    def objects(self, name: str) -> list[str]:
        return objects(self.cluster, name)

    def wipe(self, name: str, *, mark: bool = True) -> None:
        for key in [*self.objects(name), *([INCARNATION] if mark else [])]:
            self.store(name).delete(key)

    def fence(self, name: str) -> None:
        self.submit(FenceStore(StoreId(name)))

    def register(self, name: str) -> None:
        come_back(self.cluster, name)

    # ---- replicas -------------------------------------------------------------------------------

    def value(self, partition: int = 0) -> Replication:
        return self.state.partitions[self.key(partition)].replication

    def key(self, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.state.topic_ids["t"], PartitionIndex(partition))

    def objects_of(self, partition: int = 0) -> list[ObjectNumber]:
        """The numbers of the objects of a partition, in the order of offsets."""
        whole = OffsetRange(Offset(0), Offset(1 << 40))
        return [slice_.object_number for slice_ in self.state.slices.find(self.key(partition), whole)]

    def replicas(self, partition: int = 0) -> str:
        """As a:abc a9 b5 c7."""
        value = self.value(partition)
        return f"{roles(value)} {ends(value)}"


def replicated_cluster(url: str | None = None, partitions: int = 1, **config: object) -> ReplicatedCluster:
    """A new cluster: in memory, or at `url` with its stores in folders below it."""
    root = f"memory://{uuid.uuid4().hex}" if url is None else url
    stores = {each: f"{root}-{each}" if url is None else each for each in "abc"}
    init_cluster(root, stores=stores, config={"replica.fetch.backoff.ms": 100})
    connected = sparklog.connect(root)
    settings = {"file.delete.delay.ms": 0, "rewrite.delete.delay.ms": 0, **config}
    connected.create_topic("t", assignment=[["a", "b", "c"]] * partitions, config=settings)
    return ReplicatedCluster(connected)


@dataclass
class DrivenAgent:
    """The agent of a store of the cluster. `before` is called with each request, and may answer in its place."""

    world: ReplicatedCluster
    name: str
    once: bool = False
    before: Callable[[Request], Reply] = lambda request: None
    now_ms: int = 0
    dice: SeededDice = field(default_factory=SeededDice)
    asked: list[Request] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.agent = Agent(StoreId(self.name), self.dice, once=self.once)
        self._replies: list[tuple[Request, Reply]] = []

    def step(self) -> list[Request]:
        """One step: the requests of the last one are answered; if there were none, time passes."""
        wake_ms = self.agent.wake_ms
        if not self._replies and wake_ms is not None:
            self.now_ms = max(self.now_ms, int(wake_ms) + 1)
        requests = self.agent.step(self.now_ms, self._replies)
        self.notes += self.agent.notes
        self.agent.notes.clear()
        self.asked += requests
        self._replies = [(request, self._answer(request)) for request in requests]
        return requests

    def run(self, for_ms: int = 3_000) -> DrivenAgent:
        """Until it ends, or so much time has passed."""
        end_ms = self.now_ms + for_ms
        while not self.agent.ended and self.now_ms < end_ms:
            self.step()
        return self

    def stop(self) -> DrivenAgent:
        """Stop it, and let it end."""
        self.agent.stop()
        while not self.agent.ended:
            self.step()
        return self

    def count(self, kind: type) -> int:
        return sum(isinstance(each, kind) for each in self.asked)

    def said(self, event: str) -> list[str]:
        return [each.text for each in self.notes if each.event == event]

    def _answer(self, request: Request) -> Reply:
        instead = self.before(request)
        return perform(request, StoreId(self.name), self.world.cluster.connection) if instead is None else instead
