"""One command of each type, with the right that it needs: verb and topics, as the design has them."""

from __future__ import annotations

from typing import Final, get_args

from sparklog.core.access import Verb
from sparklog.core.commands import (
    AddPartitions,
    AgentDown,
    AgentUp,
    AllocateProducer,
    AlterCluster,
    AlterTopic,
    Append,
    Application,
    BatchInDoubt,
    ClaimCoordination,
    Command,
    CommitOffsets,
    ConfirmDeleted,
    CreateCluster,
    CreateTopic,
    DeleteGroups,
    DeleteTopic,
    DropLagging,
    ElectLeaders,
    FenceStore,
    ForgetApplications,
    JoinGroup,
    LeaveGroup,
    MoveCleaner,
    MoveLogStart,
    MoveRecoveryPoint,
    MoveReplicas,
    NewStore,
    PartitionEpoch,
    PromoteTopic,
    RaiseFloor,
    RegisterStore,
    RemoveStore,
    ReportJob,
    ReportLoss,
    ReportReplicas,
    ResignCoordination,
    Swap,
)
from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.types import EntryNumber, LeaderEpoch, ObjectNumber, Offset, PartitionIndex, StoreId, TopicId

ORDERS, UNKNOWN = TopicId(1), TopicId(77)
CLUSTER, ANY = "cluster", "any topic"
_A, _P0 = StoreId("a"), PartitionIndex(0)


def an_append(*topics: TopicId) -> Append:
    """An append that names these topics, and is refused by the log itself."""
    return Append((), (), tuple(PartitionEpoch(topic, _P0, LeaderEpoch(0)) for topic in topics))


def of_topic(topic: TopicId, name: str) -> list[tuple[Command, Verb]]:
    """Commands that concern one topic, with the verb that each needs on it."""
    return [
        (an_append(topic), Verb.WRITE),
        (CreateTopic(name, 1, 1), Verb.ALTER),
        (AlterTopic(topic, {"retention.ms": "5"}), Verb.ALTER),
        (AddPartitions(topic, 2), Verb.ALTER),
        (DeleteTopic(topic), Verb.ALTER),
        (PromoteTopic(topic, (Offset(0),)), Verb.ALTER),
        (Swap(topic, _P0, Offset(0), Offset(1), "", (), ()), Verb.MAINTAIN),
        (MoveLogStart(topic, _P0, Offset(0)), Verb.MAINTAIN),
        (MoveCleaner(topic, _P0, None, Offset(0)), Verb.MAINTAIN),
        (CommitOffsets("c" * 32, "g", (OffsetToCommit(topic, _P0, Offset(0), LeaderEpoch(0)),)), Verb.READ),
        (JoinGroup("g", "m", (name,), 9_000), Verb.READ),
    ]


# Commands of no topic: the verb, and whether it is needed on the cluster or on any topic. None: nobody has the right.
OF_NO_TOPIC: Final[list[tuple[Command, Verb | None, str]]] = [
    (Append((), (), (), Application("app", 1)), Verb.WRITE, ANY),
    (AllocateProducer(), Verb.WRITE, ANY),
    (AllocateProducer(0, 0, (BatchInDoubt(TopicId(0), _P0, 0),)), Verb.WRITE, ANY),
    (ReportJob("roll", 0, 1, 0, "{}"), Verb.MAINTAIN, ANY),
    (CommitOffsets("c" * 32, "no-group", (), "m", 1, 1), Verb.READ, ANY),
    (LeaveGroup("no-group", "m"), Verb.READ, ANY),
    (DeleteGroups(("g",)), Verb.ALTER, CLUSTER),
    (ConfirmDeleted(()), Verb.MAINTAIN, CLUSTER),
    (RaiseFloor(EntryNumber(0)), Verb.MAINTAIN, CLUSTER),
    (ForgetApplications(()), Verb.MAINTAIN, CLUSTER),
    (AgentUp(_A, 0), Verb.MAINTAIN, CLUSTER),
    (AgentDown(_A, 0), Verb.MAINTAIN, CLUSTER),
    (ReportLoss(_A, 0, "i"), Verb.MAINTAIN, CLUSTER),
    (ReportReplicas(_A, 0, ()), Verb.MAINTAIN, CLUSTER),
    (DropLagging(()), Verb.MAINTAIN, CLUSTER),
    (MoveRecoveryPoint(_A, 0, ObjectNumber(0), EntryNumber(0)), Verb.MAINTAIN, CLUSTER),
    (RegisterStore(NewStore(_A, ".", "i")), Verb.ALTER, CLUSTER),
    (FenceStore(StoreId("b")), Verb.ALTER, CLUSTER),
    (RemoveStore(StoreId("b"), {}), Verb.ALTER, CLUSTER),
    (ElectLeaders(()), Verb.ALTER, CLUSTER),
    (MoveReplicas(()), Verb.ALTER, CLUSTER),
    (CreateCluster("d" * 32, ()), Verb.ALTER, CLUSTER),
    (AlterCluster({"page.writes": "true"}), Verb.ALTER, CLUSTER),
    (ResignCoordination(99), Verb.ALTER, CLUSTER),
    (ClaimCoordination(2, "thief", "http://thief"), None, CLUSTER),
]

TYPES: Final = frozenset(get_args(Command))
