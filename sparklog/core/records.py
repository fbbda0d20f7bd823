"""Records of the chain: changes of the state that commands led to. `apply` makes these changes, and refuses none."""

from __future__ import annotations

import msgspec

from sparklog.core.commands import Application
from sparklog.core.describe.readable import counted, one_line_repr
from sparklog.core.groups.membership import ConsumerGroup, OffsetToCommit
from sparklog.core.maintenance.cleaner import Cleaner
from sparklog.core.replication.partition_change import PartitionChange
from sparklog.core.row_offsets import records_between
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    KafkaTopic,
    NamedObject,
    ObjectNumber,
    Offset,
    PartitionIndex,
    ProducerId,
    Slice,
    StoreId,
    TopicId,
    TopicPartition,
)


class ClusterCreated(msgspec.Struct, frozen=True, tag="cluster-created"):
    """A new cluster exists, with chain `chain_id` and these config keys. This is the first record of entry 0."""

    chain_id: str
    config: dict[str, str]


class StoreRegistered(msgspec.Struct, frozen=True, tag="store-registered"):
    """A store can hold replicas from now on, under this registration number. `zone` is "" if the store has none.

    If a store of the same id is already registered, it gets this number and is no longer fenced.
    """

    store: StoreId
    registration: int
    url: str
    incarnation: str
    zone: str


class StoreFenced(msgspec.Struct, frozen=True, tag="store-fenced"):
    """The store is fenced until it is registered again. It gets a new number, `registration`.

    Everything that names the store by an older registration is stale.
    """

    store: StoreId
    registration: int


class StoreRemoved(msgspec.Struct, frozen=True, tag="store-removed"):
    """The store is no longer registered."""

    store: StoreId


class AgentChanged(msgspec.Struct, frozen=True, tag="agent-changed"):
    """The agent of a store came up (True) or fell silent (False), or its condition is unknown (None).

    `up` is None after a clean stop of the agent, and after a write has reached a store whose agent is silent. While the
    condition is unknown, the store counts as reachable.
    """

    store: StoreId
    up: bool | None


class PartitionsChanged(msgspec.Struct, frozen=True, tag="partitions-changed"):
    """Changes of the replicas of partitions. Each partition is named at most once."""

    changes: tuple[PartitionChange, ...]


class TopicCreated(msgspec.Struct, frozen=True, tag="topic-created"):
    """A topic exists from now on. `assignment[p]` lists the stores of partition p, the preferred leader first.

    `mirror_of`: the Kafka topic that it mirrors until it is promoted.
    """

    topic_id: TopicId
    name: str
    config: dict[str, str]
    assignment: tuple[tuple[StoreId, ...], ...]
    mirror_of: KafkaTopic | None = None


class TopicPromoted(msgspec.Struct, frozen=True, tag="topic-promoted"):
    """The topic is no longer mirrored. `PartitionsChanged` records follow, with the new leader epochs."""

    topic_id: TopicId


class ClusterAltered(msgspec.Struct, frozen=True, tag="cluster-altered"):
    """The config keys that are set for the cluster from now on. All others have their defaults."""

    config: dict[str, str]


class TopicAltered(msgspec.Struct, frozen=True, tag="topic-altered"):
    """The config keys that are set for the topic from now on. All others have the cluster's defaults."""

    topic_id: TopicId
    config: dict[str, str]


class PartitionsAdded(msgspec.Struct, frozen=True, tag="partitions-added"):
    """Partitions `first`, `first + 1`, … exist from now on, with replicas on the stores of `assignment`."""

    topic_id: TopicId
    first: PartitionIndex
    assignment: tuple[tuple[StoreId, ...], ...]


class TopicDeleted(msgspec.Struct, frozen=True, tag="topic-deleted"):
    """The topic and its slices are forgotten; its objects may be deleted from `delete_after_ms` on."""

    topic_id: TopicId
    delete_after_ms: int


class AppendedRange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The offsets [start, end) that one append wrote in a partition, with the stored bytes of their batches.

    `empty`: the number of these offsets that got no record, in a mirror topic.
    """

    topic_id: TopicId
    partition: PartitionIndex
    start: Offset
    end: Offset
    size_bytes: int
    empty: int = 0

    @property
    def records(self) -> int:
        """The number of records that the append wrote in the range."""
        return records_between(self.start, self.end) - self.empty


class LostRecords(msgspec.Struct, frozen=True, array_like=True):
    """Records [start, end) of a partition that an election gave up. `place`: the partition, as TOPIC-NUMBER."""

    place: str
    start: Offset
    end: Offset

    def __str__(self) -> str:
        return f"{self.place} [{self.start}, {self.end})"


class LostVersion(msgspec.Struct, frozen=True, array_like=True):
    """The records that an application wrote as `version`, and that an unclean election gave up.

    `is_whole`: the election gave up all records of that version.
    """

    version: int
    records: tuple[LostRecords, ...]
    is_whole: bool


class Appended(msgspec.Struct, frozen=True, tag="appended"):
    """Uploaded objects were named, and their slices got offsets.

    `ranges`: one for each partition, in the order in which the partitions first occur in `slices`.

    `changes`: one for each partition in which some replica now lacks a part of the log. In all other partitions, every
    replica has the slices, and HW has passed them.
    """

    objects: tuple[NamedObject, ...]
    slices: tuple[Slice, ...]
    ranges: tuple[AppendedRange, ...]
    application: Application | None = None
    label: str = ""
    changes: tuple[PartitionChange, ...] = ()


class AppendedByReference(msgspec.Struct, frozen=True, tag="appended-by-reference"):
    """An append with so many slices that its objects and slices are in a body in `meta/commands/`, not in the entry.

    Before it is applied, it is expanded to an `Appended`, from the body and the state before its entry. `body` is the
    number of the body, from 0. A command has several bodies if its objects were copied to other stores, and so got
    other holders, before it was submitted again.
    """

    body_sha256: str
    body_size_bytes: int
    object_count: int
    slice_count: int
    ranges: tuple[AppendedRange, ...]
    application: Application | None = None
    label: str = ""
    changes: tuple[PartitionChange, ...] = ()
    body: int = 0


class SlicesSwapped(msgspec.Struct, frozen=True, tag="slices-swapped"):
    """From now on `slices` cover [start, end) of the partition, in place of the slices that covered them before.

    `change`: the change of the replicas if one of them lacks the new slices, else None.
    """

    topic_id: TopicId
    partition: PartitionIndex
    start: Offset
    end: Offset
    objects: tuple[NamedObject, ...]
    slices: tuple[Slice, ...]
    delete_after_ms: int
    change: PartitionChange | None = None


class LogStartMoved(msgspec.Struct, frozen=True, tag="log-start-moved"):
    """The log start rises to `to`. Objects that no slice names after that may be deleted from `delete_after_ms` on.

    `change`: if a gap begins at `to`, the LEOs of replicas that rise past the gap; else None.
    """

    topic_id: TopicId
    partition: PartitionIndex
    to: Offset
    delete_after_ms: int
    change: PartitionChange | None = None


class CleanerMoved(msgspec.Struct, frozen=True, tag="cleaner-moved"):
    """The new state of a partition's cleaner."""

    topic_id: TopicId
    partition: PartitionIndex
    cleaner: Cleaner


class ObjectsDeleted(msgspec.Struct, frozen=True, tag="objects-deleted"):
    """The bytes of these retired objects are gone from every store."""

    numbers: tuple[ObjectNumber, ...]


class FloorRaised(msgspec.Struct, frozen=True, tag="floor-raised"):
    """Commands begun before `floor` are refused from now on; `expired_producers` are forgotten."""

    floor: EntryNumber
    expired_producers: tuple[ProducerId, ...] = ()


class ApplicationsForgotten(msgspec.Struct, frozen=True, tag="applications-forgotten"):
    """These applications are forgotten: any version that they write counts as new."""

    app_ids: tuple[str, ...]


class LossReported(msgspec.Struct, frozen=True, tag="loss-reported"):
    """The application was notified, in place of a write, of records that it has lost. It is notified once of a loss."""

    application: Application
    lost: LostVersion


class RecoveryPointMoved(msgspec.Struct, frozen=True, tag="recovery-point-moved"):
    """Every object that the store holds with a number below `to` was read and is whole (F-03)."""

    store: StoreId
    to: ObjectNumber


class ProducerAllocated(msgspec.Struct, frozen=True, tag="producer-allocated"):
    """From now on the producer id is valid, with this epoch and no sequences yet."""

    producer_id: ProducerId
    producer_epoch: int


class JobRan(msgspec.Struct, frozen=True, tag="job-ran"):
    """A run of a maintenance job ended, and left a report, the JSON text `report`."""

    job: str
    started_ms: int
    ended_ms: int
    failed_partitions: int
    report: str


class CoordinationClaimed(msgspec.Struct, frozen=True, tag="coordination-claimed"):
    """The process `name`, reached at `address`, coordinates the cluster from now on, or still does."""

    epoch: int
    name: str
    address: str


class CoordinationResigned(msgspec.Struct, frozen=True, tag="coordination-resigned"):
    """The coordinator of this epoch no longer leads."""

    epoch: int


class ClusterRestored(msgspec.Struct, frozen=True, tag="cluster-restored"):
    """The cluster continues from copies of its lost chain, as chain `chain_id`. No process coordinates it.

    `last` is the newest entry of the lost chain for which a copy was found. `urls` are the new addresses of stores that
    have moved since they were registered. `given_up`: ids of the chains of earlier restores that failed before their
    first entry.
    """

    chain_id: str
    last: EntryNumber
    urls: dict[StoreId, str] = {}
    given_up: tuple[str, ...] = ()


class GroupChanged(msgspec.Struct, frozen=True, tag="group-changed"):
    """The state of a group from now on: its generation, its members, and the partitions assigned to each member."""

    group: ConsumerGroup


class OffsetsCommitted(msgspec.Struct, frozen=True, tag="offsets-committed"):
    """A group continues at these offsets. If the group is new, it gets `group_number`.

    `member_id` is the member that committed, and so showed that it is alive. `commit` is the number of the
    member's newest commit, counted from 1.
    """

    group: str
    group_number: int
    offsets: tuple[OffsetToCommit, ...]
    member_id: str | None = None
    commit: int = 0


class GroupPartitions(msgspec.Struct, frozen=True, array_like=True):
    """A group, and the partitions in which its offsets are forgotten."""

    group: str
    partitions: tuple[TopicPartition, ...]


class OffsetsForgotten(msgspec.Struct, frozen=True, tag="offsets-forgotten"):
    """The groups in `groups` are forgotten with all their offsets.

    Each group in `offsets` remains, and only its offsets in the given partitions are forgotten.
    """

    groups: tuple[str, ...]
    offsets: tuple[GroupPartitions, ...] = ()


Record = (
    ClusterCreated
    | ClusterRestored
    | StoreRegistered
    | TopicCreated
    | TopicPromoted
    | TopicAltered
    | ClusterAltered
    | PartitionsAdded
    | TopicDeleted
    | Appended
    | AppendedByReference
    | SlicesSwapped
    | LogStartMoved
    | CleanerMoved
    | ObjectsDeleted
    | FloorRaised
    | ApplicationsForgotten
    | LossReported
    | ProducerAllocated
    | JobRan
    | StoreFenced
    | StoreRemoved
    | AgentChanged
    | PartitionsChanged
    | CoordinationClaimed
    | CoordinationResigned
    | RecoveryPointMoved
    | GroupChanged
    | OffsetsCommitted
    | OffsetsForgotten
)


class At(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A record's place in the chain: the number of its entry, and the entry's time by its author's clock."""

    n: EntryNumber
    time_ms: int


class AppliedCommand(msgspec.Struct, frozen=True, array_like=True):
    """A command as it is stored in an entry of the chain: its identity, and the records that it led to."""

    command_id: CommandId
    n0: EntryNumber
    records: tuple[Record, ...]


class CommandResult(msgspec.Struct, frozen=True, array_like=True):
    """The result of a command, committed by entry `n`. A repeat gets the same result until FLOOR has passed `n0`.

    `ranges` and `records`: the offsets that an append wrote, and the number of its records. `topic_id`: the topic that
    was created. `producer_id`, `producer_epoch`: the id and the epoch that were allocated to a producer. `lost`: the
    append was not made, because its application had to be notified first that it has lost these records.
    """

    n: EntryNumber
    n0: EntryNumber
    time_ms: int
    ranges: tuple[AppendedRange, ...] = ()
    records: int = 0
    application: Application | None = None
    label: str = ""
    topic_id: TopicId | None = None
    producer_id: ProducerId | None = None
    producer_epoch: int | None = None
    lost: LostVersion | None = None

    def __repr__(self) -> str:
        partitions = {(range_.topic_id, range_.partition) for range_ in self.ranges}
        wrote = f"{counted(self.records, 'record')} in {counted(len(partitions), 'partition')}"
        return one_line_repr("CommandResult", f"entry {self.n}", wrote if partitions else "no records")
