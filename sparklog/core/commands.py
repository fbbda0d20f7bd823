"""Commands: requested changes. `decide` turns a command into records, or refuses it.

An append asks for particular offsets only in a mirror topic (`NewSlice.offsets`). Commands name topics by id, so a
command that was begun for a topic that has since been deleted and created again fails with UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import (
    CommandId,
    CommandStoreId,
    EntryNumber,
    KafkaTopic,
    LeaderEpoch,
    Name,
    NewObject,
    NewSlice,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    Text,
    TimestampSource,
    TopicId,
)

MOST_TOPICS: Final = 10_000  # that a member of a group may subscribe to


class NewStore(msgspec.Struct, frozen=True):
    """A store to register. `url` is its address, "." for the cluster's own root. `incarnation` is the uuid in its file
    INCARNATION.

    Replicas are spread over zones. All stores with `zone` "" form one zone. Readers ask the stores of their own zone
    first.
    """

    store: CommandStoreId
    url: Text
    incarnation: Name
    zone: Name = ""


class CreateCluster(msgspec.Struct, frozen=True, tag="create-cluster"):
    """Create a cluster with its first stores. This is the first command of a chain; its author draws `chain_id`."""

    chain_id: Name
    stores: tuple[NewStore, ...]
    config: dict[Name, Text] = {}


class CreateTopic(msgspec.Struct, frozen=True, tag="create-topic"):
    """Create a topic. None for `partitions` or `replication_factor` means the cluster's default.

    `config` has been checked by config/topic_config.py. `assignment` lists the stores of each partition's replicas, the
    preferred leader first. If it is None, the cluster chooses the stores. With `mirror_of`, the topic is mirrored until
    it is promoted: its records keep the offsets that they have in this Kafka topic.
    """

    name: Name
    partitions: int | None = None
    replication_factor: int | None = None
    config: dict[Name, Text] = {}
    assignment: tuple[tuple[CommandStoreId, ...], ...] | None = None
    mirror_of: KafkaTopic | None = None


class AlterCluster(msgspec.Struct, frozen=True, tag="alter-cluster"):
    """Set the config keys `changed` of the cluster, and remove the keys `removed`."""

    changed: dict[Name, Text] = {}
    removed: tuple[Name, ...] = ()


class AlterTopic(msgspec.Struct, frozen=True, tag="alter-topic"):
    """Set the config keys `changed` of a topic, and remove the keys `removed`."""

    topic_id: TopicId
    changed: dict[Name, Text] = {}
    removed: tuple[Name, ...] = ()


class AddPartitions(msgspec.Struct, frozen=True, tag="add-partitions"):
    """Raise the number of partitions of a topic to `total`.

    `assignment` lists the stores of each new partition's replicas, the preferred leader first. If it is None, the
    cluster chooses the stores.
    """

    topic_id: TopicId
    total: int
    assignment: tuple[tuple[CommandStoreId, ...], ...] | None = None


class DeleteTopic(msgspec.Struct, frozen=True, tag="delete-topic"):
    """Forget a topic. Its objects are retired, and deleted after `file.delete.delay.ms`.

    With `if_never_written` the command is refused if any record was ever appended to the topic.
    """

    topic_id: TopicId
    if_never_written: bool = False


class PromoteTopic(msgspec.Struct, frozen=True, tag="promote-topic"):
    """Turn a mirror topic into an ordinary one. It can't become a mirror topic again.

    `ends[p]`: the offset of the next record of partition p, at or above its next offset now; if it is above, the
    offsets between stay empty. Each partition begins a new leader epoch at this offset, which fences the appends that
    were begun before.
    """

    topic_id: TopicId
    ends: tuple[Offset, ...]


class PartitionEpoch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The leader epoch under which a write to a partition began."""

    topic_id: TopicId
    partition: PartitionIndex
    leader_epoch: LeaderEpoch


class Application(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One write of an application (`txnAppId`), which numbers its writes: each `version` (`txnVersion`) is written at
    most once.

    `run` is the id of the run that writes; "" if the application has no runs. `made_of` is a digest of the input of
    this version; "" if there is none. A write of the same version with another digest is not a repeat, and is refused.
    """

    app_id: str
    version: int
    run: str = ""
    made_of: str = ""


class ProducerEpoch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An instance of a producer: the producer's id, and the epoch that the instance got when it began."""

    producer_id: int
    producer_epoch: int


class Append(msgspec.Struct, frozen=True, tag="append"):
    """Append the slices of uploaded objects to their partitions: all slices get offsets, or nothing is written.

    Offsets follow the order of `slices` within each partition. In a mirror topic, the slices name them; such an
    append needs acks=all without `pull`, and neither sequences nor a `fence`. `epochs` has one row for each partition
    written to. `application` identifies the write as one version of an application (`txnAppId` and `txnVersion`).
    `label` is the author's own label for it (`writeId`), which need not be unique. `keyless`: the topics that get
    records without a key.

    With `pull`, the author has uploaded only to the leaders' stores, and the records become visible once followers have
    fetched them. With `take_over`, if a leader's store lacks the objects, an in-sync replica becomes the leader in the
    same entry. That replica must have the whole log, and its store must hold the objects.

    `consumed`: the offsets of a group up to which the records' input was read. They are committed in the same entry: if
    they are refused, so is the append (I-05). `fence` is given if the append is a producer's transaction: the append is
    refused if a newer instance of this producer has begun. The slices of a transaction have no sequence numbers.
    """

    objects: tuple[NewObject, ...]
    slices: tuple[NewSlice, ...]
    epochs: tuple[PartitionEpoch, ...]
    application: Application | None = None
    label: Text = ""
    keyless: tuple[TopicId, ...] = ()
    acks: Acks = Acks.ALL
    pull: bool = False
    take_over: bool = False
    consumed: CommitOffsets | None = None
    fence: ProducerEpoch | None = None


class RewrittenSlice(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """A slice made by a rewrite. It covers the offsets [start, end) in place of the slices that cover them so far."""

    new: NewSlice
    start: Offset
    end: Offset
    append_time_ms: int
    timestamp_source: TimestampSource
    leader_epoch: LeaderEpoch


class Swap(msgspec.Struct, frozen=True, tag="swap"):
    """Replace the slices that cover [start, end) of a partition with rewritten ones (roll, compaction).

    `digest` identifies the slices that were rewritten (`slice_table.digest`). If other slices have taken their place
    since, the swap is refused.

    `lost`: the parts of the range that no slice covers any more, ascending. An operator has accepted that no store has
    these records, and that reading them raises DataLoss.
    """

    topic_id: TopicId
    partition: PartitionIndex
    start: Offset
    end: Offset
    digest: Name
    objects: tuple[NewObject, ...]
    slices: tuple[RewrittenSlice, ...]
    lost: tuple[OffsetRange, ...] = ()


class MoveLogStart(msgspec.Struct, frozen=True, tag="move-log-start"):
    """Raise the log start of a partition to `to` (at most HW); slices wholly below it are forgotten."""

    topic_id: TopicId
    partition: PartitionIndex
    to: Offset


class MoveCleaner(msgspec.Struct, frozen=True, tag="move-cleaner"):
    """Record that a compaction run has cleaned everything below `to`.

    `position`: the cleaner's position when the run was planned (None: there was no cleaner). If another run has moved
    the cleaner since, the command is refused. Below `dropped_below` the run dropped all tombstones (None: it dropped
    none). `passes_tombstones`: the run may have kept tombstones at or above `position`, so their delay
    (`delete.retention.ms`) begins with this entry. `keeps_superseded`: the run kept a record although a later record
    has its key.
    """

    topic_id: TopicId
    partition: PartitionIndex
    position: Offset | None
    to: Offset
    dropped_below: Offset | None = None
    passes_tombstones: bool = True
    keeps_superseded: bool = False


class ConfirmDeleted(msgspec.Struct, frozen=True, tag="confirm-deleted"):
    """Confirm that the bytes of these retired objects were deleted from every store."""

    numbers: tuple[ObjectNumber, ...]


class RaiseFloor(msgspec.Struct, frozen=True, tag="raise-floor"):
    """Raise FLOOR to chain position `floor`: everything begun before it is refused from then on.

    Producers that were silent for `producer.id.expiration.ms` are forgotten, and so are expired offsets of groups.
    Their times count back from `shown_ms`, or from the entry's own time if that is earlier. The author gives the time
    that recent entries show (`chain/floor.py`), so nothing expires because one clock is ahead, the author's or the
    coordinator's. With 0, nothing expires.

    Group members that were last renewed before entry `silent_before` are removed, except those with a session timeout
    longer than `floor.delay.ms`. While a coordinator is in force, no member is removed: it watches the members itself.
    """

    floor: EntryNumber
    silent_before: EntryNumber = EntryNumber(0)
    shown_ms: int = 0


class ForgetApplications(msgspec.Struct, frozen=True, tag="forget-applications"):
    """Forget these applications, except those that have written a newer version than the one given here."""

    applications: tuple[Application, ...]


class BatchInDoubt(msgspec.Struct, frozen=True, array_like=True):
    """A producer's batch in a partition. It may have landed, or may land later. `first_sequence` identifies it."""

    topic_id: TopicId
    partition: PartitionIndex
    first_sequence: int


class AllocateProducer(msgspec.Struct, frozen=True, tag="allocate-producer"):
    """Allocate a new producer id with epoch 0, or the next epoch of `producer_id`, which fences the older epochs.

    With `producer_epoch`, the command is refused unless the producer is at this epoch, so that a fenced instance can't
    come back.

    `in_doubt` is given together with `producer_id` and `producer_epoch`. The command is refused (OutOfOrderSequence) if
    one of these batches has landed: the producer should send that batch again, to learn its offsets. If none has
    landed, none ever will, because the new epoch fences them.
    """

    producer_id: int | None = None
    producer_epoch: int | None = None
    in_doubt: tuple[BatchInDoubt, ...] = ()


class ReportJob(msgspec.Struct, frozen=True, tag="report-job"):
    """Record that a maintenance job ended. `report` is JSON text.

    `failed_partitions` counts all parts of its work that failed: partitions, stores, and deletions of objects.
    """

    job: Name
    started_ms: int
    ended_ms: int
    failed_partitions: int
    report: Text


class RegisterStore(msgspec.Struct, frozen=True, tag="register-store"):
    """Register a new store, or register again a fenced store that is back with the same id and INCARNATION.

    `announced_to`: the stores on which this store was announced beforehand (`copies/peers/`), with their registrations.
    If the metadata is lost, a restore from one of them finds this store, which may have the newest copy of the chain.

    The command is refused if one of these registrations has changed. It is also refused if any store was registered or
    fenced since the announcement: `next_registration` is the number that the chain would have given next at that time.
    """

    store: NewStore
    announced_to: dict[CommandStoreId, int] = {}
    next_registration: int | None = None


class FenceStore(msgspec.Struct, frozen=True, tag="fence-store"):
    """Fence a store until it is registered again. Where it leads, another replica is elected if one may lead."""

    store: CommandStoreId


class RemoveStore(msgspec.Struct, frozen=True, tag="remove-store"):
    """Forget a store that has no replica.

    `others`: the other stores that may have copies of the metadata, with their registrations. If copies are wanted, one
    of the others must be registered under that number, and not be fenced.
    """

    store: CommandStoreId
    others: dict[CommandStoreId, int]


class HeldEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The end of a damaged replica: the store holds the log of a partition up to `end`, and lacks records after it."""

    topic_id: TopicId
    partition: PartitionIndex
    end: Offset


class ReportLoss(msgspec.Struct, frozen=True, tag="report-loss"):
    """Report that a store lacks objects that it should hold. `held`: the end of what it still has of each damaged log.

    `incarnation` is the present content of the store's file INCARNATION. If it is the same as at the registration, the
    partitions that are not in `held` lost nothing. If it differs, the store was wiped or swapped, and those partitions
    lost everything.

    With `harmless`, the command is refused if a damaged partition would be without a leader. It is also refused unless
    every record that this store should have in a damaged partition is on another store that can be reached.
    """

    store: CommandStoreId
    registration: int
    incarnation: Name
    held: tuple[HeldEnd, ...] = ()
    harmless: bool = False


class MoveRecoveryPoint(msgspec.Struct, frozen=True, tag="move-recovery-point"):
    """Record that, as of entry `n`, each object of the store with a number below `to` was read and is whole (F-03)."""

    store: CommandStoreId
    registration: int
    to: ObjectNumber
    n: EntryNumber


class AgentUp(msgspec.Struct, frozen=True, tag="agent-up"):
    """Report that the agent of a store is running, so that the store can be reached."""

    store: CommandStoreId
    registration: int


class AgentDown(msgspec.Struct, frozen=True, tag="agent-down"):
    """Report that the agent of a store is silent, and that no write has reached the store since it fell silent.

    With `stopped`, the agent itself reports that it was stopped on purpose. The store then still counts as reachable,
    and takes writes as before.
    """

    store: CommandStoreId
    registration: int
    stopped: bool = False


class ReplicaReport(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The log end of a replica on the agent's store, as seen at this leader epoch and version of the partition.

    If the epoch or the version has changed since, the report is skipped.
    """

    topic_id: TopicId
    partition: PartitionIndex
    leader_epoch: LeaderEpoch
    version: int
    log_end: Offset


class ReportReplicas(msgspec.Struct, frozen=True, tag="report-replicas"):
    """Report the log ends of the replicas on a store.

    Partitions that have changed since the report was made are skipped. If all are skipped, the first error is raised.
    """

    store: CommandStoreId
    registration: int
    replicas: tuple[ReplicaReport, ...]


class LaggingReplicas(msgspec.Struct, frozen=True, array_like=True):
    """The stores whose replicas of a partition have lagged for `replica.lag.time.max.ms`.

    The lag was seen at this leader epoch and version of the partition. If one has changed since, the row is skipped.
    """

    topic_id: TopicId
    partition: PartitionIndex
    leader_epoch: LeaderEpoch
    version: int
    stores: tuple[CommandStoreId, ...]


class DropLagging(msgspec.Struct, frozen=True, tag="drop-lagging"):
    """Take lagging replicas out of the ISR.

    Partitions that have changed since the lag was seen are skipped. If all are skipped, the first error is raised.
    """

    lagging: tuple[LaggingReplicas, ...]


class Election(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An election in one partition. `store` becomes the leader. If it is None, any replica may become the leader, but
    only if the present one can't be reached.
    """

    topic_id: TopicId
    partition: PartitionIndex
    store: CommandStoreId | None = None


class ElectLeaders(msgspec.Struct, frozen=True, tag="elect-leaders"):
    """Elect leaders. Partitions in which the election is refused are skipped. If it is refused in all, the first error
    is raised.

    With `unclean`, a replica that lacks committed records may lead if no other replica can. The records that it lacks
    are lost.
    """

    elections: tuple[Election, ...]
    unclean: bool = False


class Move(msgspec.Struct, frozen=True, array_like=True):
    """The stores that the replicas of a partition move to, the preferred leader first."""

    topic_id: TopicId
    partition: PartitionIndex
    replicas: tuple[CommandStoreId, ...]


class MoveReplicas(msgspec.Struct, frozen=True, tag="move-replicas"):
    """Move replicas: all of these moves begin, or none."""

    moves: tuple[Move, ...]


class ClaimCoordination(msgspec.Struct, frozen=True, tag="claim-coordination"):
    """CLAIM: this process coordinates the cluster from now on, with an epoch one above the last.

    A coordinator claims its own epoch again to show that it is alive. Each process draws its own `name`.
    """

    epoch: int
    name: Name
    address: Text


class ResignCoordination(msgspec.Struct, frozen=True, tag="resign-coordination"):
    """RESIGN: the coordinator of this epoch stops leading, and the cluster is embedded again."""

    epoch: int


class JoinGroup(msgspec.Struct, frozen=True, tag="join-group"):
    """Join a group, which is created if it is new. The author draws `member_id`, and keeps it.

    A member that joins again shows that it is alive, and may change its topics and its session timeout.

    The id of a static member (KIP-345) has the form INSTANCE@RANDOM. The random part is new after each restart, and the
    restarted member takes the place of the one before it. `again` means that this member id has joined before: the
    command is refused (FencedInstanceId) if a newer member of the same instance has taken its place.
    """

    group: Name
    member_id: Name
    topics: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_TOPICS)]
    session_timeout_ms: int
    again: bool = False


class LeaveGroup(msgspec.Struct, frozen=True, tag="leave-group"):
    """Remove a member from its group, because it leaves or is evicted.

    An eviction gives `renewed_at`, the entry of the member's last renewal. If the member was renewed later, it stays.
    """

    group: Name
    member_id: Name
    renewed_at: EntryNumber | None = None


class CommitOffsets(msgspec.Struct, frozen=True, tag="commit-offsets"):
    """Set offsets of a group: all of them, or nothing. A member that commits no offsets only shows that it is alive.

    `chain_id`: the chain in which the offsets were read; any other chain refuses them. `number` counts the commits of a
    member from 1. If it is not above the number of the member's last commit, this commit is a repeat, or a later one
    came first: it changes nothing, and with an append it is refused.

    Resets, and jobs that keep their own positions, commit without `member_id`. Such a commit is refused if the group
    has members.

    With `group_number`, the commit is refused unless the group still has this number. A group that is created again
    under the same name has another number, although its member ids and generations may be the same as before.

    With `only_forward`, partitions in which the group is already at the offset, or further, are skipped.
    """

    chain_id: Name
    group: Name
    offsets: tuple[OffsetToCommit, ...]
    member_id: Name | None = None
    generation: int = 0
    number: int = 0
    only_forward: bool = False
    group_number: int | None = None


class DeleteGroups(msgspec.Struct, frozen=True, tag="delete-groups"):
    """Forget groups without members, and their offsets: all of these groups, or none."""

    groups: tuple[Name, ...]


Command = (
    CreateCluster
    | CreateTopic
    | AlterTopic
    | AlterCluster
    | AddPartitions
    | DeleteTopic
    | PromoteTopic
    | Append
    | Swap
    | MoveLogStart
    | MoveCleaner
    | ConfirmDeleted
    | RaiseFloor
    | ForgetApplications
    | AllocateProducer
    | ReportJob
    | RegisterStore
    | FenceStore
    | RemoveStore
    | ReportLoss
    | AgentUp
    | AgentDown
    | ReportReplicas
    | DropLagging
    | ElectLeaders
    | MoveReplicas
    | ClaimCoordination
    | ResignCoordination
    | MoveRecoveryPoint
    | JoinGroup
    | LeaveGroup
    | CommitOffsets
    | DeleteGroups
)


class Submission(msgspec.Struct, frozen=True):
    """A command with its identity. A command that is submitted again keeps its id and its `n0`.

    `n0` is the chain position up to which the author had read when it began the command. `in_doubt`: an earlier attempt
    may have landed, so a refusal says `landed = unknown` unless the state proves otherwise.
    """

    command_id: Annotated[CommandId, msgspec.Meta(max_length=1_000)]
    n0: EntryNumber
    command: Command
    in_doubt: bool = False
