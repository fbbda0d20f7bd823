"""A log with three replicas whose state is made by commands alone: stores a, b and c, topic "orders", partition 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from sparklog.core.commands import (
    AlterTopic,
    Append,
    CreateCluster,
    CreateTopic,
    Election,
    ElectLeaders,
    FenceStore,
    HeldEnd,
    Move,
    MoveReplicas,
    NewStore,
    PartitionEpoch,
    RegisterStore,
    ReplicaReport,
    ReportLoss,
    ReportReplicas,
    Swap,
)
from sparklog.core.records import CommandResult
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import Holder, KafkaTopic, Offset, OffsetRange, PartitionIndex, StoreId
from tests.core.decided_log import TOPIC, DecidedLog
from tests.core.replication.example_partition import ends, roles, stores


@dataclass
class ReplicatedLog(DecidedLog):
    """`stores` are registered, the topic has `partitions` partitions with replicas on a, b and c in this order."""

    stores: str = "abc"
    partitions: int = 1
    config: dict[str, str] = field(default_factory=dict)  # of the cluster
    mirror_of: KafkaTopic | None = None

    def __post_init__(self) -> None:
        new = tuple(NewStore(StoreId(each), f"file:///{each}", f"i-{each}") for each in self.stores)
        self.submit(CreateCluster("c" * 32, new, self.config))
        assignment = (stores("a", "b", "c"),) * self.partitions
        self.submit(CreateTopic("orders", assignment=assignment, mirror_of=self.mirror_of))

    def configure(self, **config: str) -> None:
        self.submit(AlterTopic(TOPIC, {name.replace("_", "."): value for name, value in config.items()}))

    # ---- writes ---------------------------------------------------------------------------------

    def write_of(self, on: str, records: int = 1, partition: int = 0, **more: Any) -> Append:
        """A slice in an object that these stores hold, planned on the state as it is."""
        appending = {name: more.pop(name) for name in ("producer", "application") if name in more}
        command = self.append_of(records, partition, **appending)
        holders = tuple(Holder(each, self.registration(each)) for each in stores(*on))
        epoch = self.value(partition).leader_epoch
        return msgspec.structs.replace(
            command,
            objects=(msgspec.structs.replace(command.objects[0], holders=holders),),
            epochs=(PartitionEpoch(TOPIC, PartitionIndex(partition), epoch),),
            **more,
        )

    def write(self, on: str, records: int = 1, partition: int = 0, **more: Any) -> CommandResult:
        return self.submit(self.write_of(on, records, partition, **more))

    def write_to_leader(self, on: str, records: int = 1, **more: Any) -> CommandResult:
        return self.write(on, records, acks=Acks.LEADER, **more)

    def give_up_of(self, start: int, end: int) -> Swap:
        """The slices of this range are on no store any more."""
        lost = OffsetRange(Offset(start), Offset(end))
        return msgspec.structs.replace(self.swap_of(start, end), objects=(), slices=(), lost=(lost,))

    # ---- stores and replicas --------------------------------------------------------------------

    def fence(self, store: str) -> None:
        self.submit(FenceStore(StoreId(store)))

    def register(self, store: str, incarnation: str | None = None) -> None:
        self.submit(RegisterStore(NewStore(StoreId(store), f"file:///{store}", incarnation or f"i-{store}")))

    def lose(self, store: str, *held: tuple[int, int], wiped: bool = False) -> None:
        """`held`: (partition, end). `wiped`: it has another INCARNATION, so that it lost what is not named."""
        found = tuple(HeldEnd(TOPIC, PartitionIndex(at), Offset(end)) for at, end in held)
        incarnation = f"i-{store}-{self.state.n}" if wiped else self.state.stores[StoreId(store)].incarnation
        self.submit(ReportLoss(StoreId(store), self.registration(store), incarnation, found))

    def report_of(self, store: str, log_end: int, partition: int = 0, **changes: Any) -> ReportReplicas:
        value = self.value(partition)
        said = ReplicaReport(TOPIC, PartitionIndex(partition), value.leader_epoch, value.version, Offset(log_end))
        return ReportReplicas(StoreId(store), self.registration(store), (msgspec.structs.replace(said, **changes),))

    def report(self, store: str, log_end: int, partition: int = 0) -> None:
        self.submit(self.report_of(store, log_end, partition))

    def elect(self, store: str | None = None, *, unclean: bool = False) -> None:
        chosen = None if store is None else StoreId(store)
        self.submit(ElectLeaders((Election(TOPIC, PartitionIndex(0), chosen),), unclean))

    def move(self, to: str) -> None:
        self.submit(MoveReplicas((Move(TOPIC, PartitionIndex(0), stores(*to)),)))

    # ---- what is there --------------------------------------------------------------------------

    def registration(self, store: str) -> int:
        return self.state.stores[StoreId(store)].registration

    def value(self, partition: int = 0) -> Replication:
        return self.partition(partition).replication

    def replicas(self, partition: int = 0) -> str:
        """As a:abc a9 b5 c7 hw5."""
        value = self.value(partition)
        return f"{roles(value)} {ends(value)} hw{value.high_watermark}"
