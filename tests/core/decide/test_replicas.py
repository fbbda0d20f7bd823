"""Replicas: reports, who lags, elections and moves, as commands on a log of three stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sparklog.core.commands import (
    AgentDown,
    Command,
    DropLagging,
    Election,
    ElectLeaders,
    LaggingReplicas,
    Move,
    MoveReplicas,
    ReplicaReport,
    ReportReplicas,
)
from sparklog.core.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidInput,
    InvalidReplicaAssignment,
    InvalidUpdateVersion,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PreferredLeaderNotAvailable,
    SparklogError,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from sparklog.core.records import PartitionsChanged
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, StoreId, TopicId
from tests.core.replicated_log import TOPIC, ReplicatedLog
from tests.core.replication.example_partition import offsets, stores


@pytest.fixture
def log() -> ReplicatedLog:
    """Offsets [0, 4) are on a alone, in slices of 2; a leads, all are in sync, and HW is 0."""
    made = ReplicatedLog()
    made.write_to_leader("a", 2)
    made.write_to_leader("a", 2)
    assert made.replicas() == "a:abc a4 b0 c0 hw0"
    return made


# ---- reports ------------------------------------------------------------------------------------------


# M: L-02
def test_hw_passes_what_every_store_in_sync_has_reported(log: ReplicatedLog) -> None:
    log.report("b", 4)
    assert log.replicas() == "a:abc a4 b4 c0 hw0"
    log.report("c", 2)
    assert log.replicas() == "a:abc a4 b4 c2 hw2"


def test_a_report_is_an_outcome_in_the_chain(log: ReplicatedLog) -> None:
    (record,) = log.decide(log.report_of("c", 2)).records
    assert isinstance(record, PartitionsChanged)
    (change,) = record.changes
    assert msgspec.to_builtins(change) == {"topic_id": 1, "partition": 0, "log_ends": (4, 0, 2)}


def test_a_late_or_doubled_report_changes_nothing(log: ReplicatedLog) -> None:
    late = log.report_of("b", 2)
    log.report("b", 4)
    assert log.decide(late).records == ()
    assert log.decide(log.report_of("b", 4)).records == ()


def test_of_a_slice_that_is_there_in_part_nothing_is_reported(log: ReplicatedLog) -> None:
    log.report("b", 3)
    assert log.replicas() == "a:abc a4 b2 c0 hw0"


def test_a_gap_counts_as_held(log: ReplicatedLog) -> None:
    log.fence("a")  # [0, 4) is forgotten
    log.write("bc", 2)
    log.register("a")
    assert log.replicas() == "b:bc a4 b6 c6 hw6"
    log.lose("a", (0, 0))
    assert log.replicas() == "b:bc a4 b6 c6 hw6"


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (
            lambda each: of(each, leader_epoch=LeaderEpoch(1)),
            UnknownLeaderEpoch,
            "orders-0: it was begun under",
        ),
        (lambda each: of(each, version=7), InvalidUpdateVersion, "orders-0: it was planned on version 7"),
        (lambda each: of(each, log_end=Offset(5)), OffsetOutOfRange, "a log end of 5, the next offset is 4"),
        (lambda each: of(each, log_end=Offset(-1)), OffsetOutOfRange, "a log end of -1"),
        (lambda each: of(each, partition=PartitionIndex(9)), UnknownTopicOrPartition, "wanted partition 9"),
        (lambda each: msgspec.structs.replace(each, registration=0), StaleBrokerEpoch, "is registered as 1, its agent"),
        (lambda each: msgspec.structs.replace(each, replicas=each.replicas * 2), InvalidInput, "found one named twice"),
    ],
)
def test_a_report_that_does_not_fit_is_refused(
    log: ReplicatedLog, change: Callable[[ReportReplicas], ReportReplicas], kind: type[SparklogError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        log.submit(change(log.report_of("b", 4)))
    assert log.replicas() == "a:abc a4 b0 c0 hw0"


def of(command: ReportReplicas, **changes: Any) -> ReportReplicas:
    return msgspec.structs.replace(command, replicas=(msgspec.structs.replace(command.replicas[0], **changes),))


def test_a_fenced_store_reports_nothing(log: ReplicatedLog) -> None:
    log.fence("b")
    with pytest.raises(StaleBrokerEpoch, match="store b is registered as 3 and fenced, its agent reports for 3"):
        log.submit(log.report_of("b", 4))


def test_a_store_without_a_replica_reports_nothing() -> None:
    log = ReplicatedLog(stores="abcd")
    with pytest.raises(NotLeaderOrFollower, match="store d has no replica of the partition"):
        log.report("d", 0)


def test_of_many_reports_those_of_partitions_that_changed_are_passed_over() -> None:
    log = ReplicatedLog(partitions=2)
    for at in (0, 1):
        log.write_to_leader("a", 2, partition=at)
    reports = tuple(log.report_of("b", 2, at).replicas[0] for at in (0, 1))
    log.submit(DropLagging((lagging(log, "c"),)))
    log.submit(ReportReplicas(StoreId("b"), 1, reports))
    assert [log.replicas(at) for at in (0, 1)] == ["a:ab a2 b0 c0 hw0", "a:abc a2 b2 c0 hw0"]
    with pytest.raises(InvalidUpdateVersion):
        log.submit(ReportReplicas(StoreId("b"), 1, reports[:1]))


# ---- who lags -----------------------------------------------------------------------------------------


def lagging(log: ReplicatedLog, *names: str) -> LaggingReplicas:
    value = log.value()
    return LaggingReplicas(TOPIC, PartitionIndex(0), value.leader_epoch, value.version, stores(*names))


# M: P-01 P-02
def test_a_replica_that_lags_leaves_the_isr_and_comes_back_when_it_has_all(log: ReplicatedLog) -> None:
    log.report("b", 4)
    log.submit(DropLagging((lagging(log, "c"),)))
    assert log.replicas() == "a:ab a4 b4 c0 hw4"
    log.report("c", 4)
    assert log.replicas() == "a:abc a4 b4 c4 hw4"


def test_neither_the_leader_nor_one_that_has_all_is_dropped(log: ReplicatedLog) -> None:
    log.report("b", 4)
    log.submit(DropLagging((lagging(log, "a", "b"),)))
    assert log.replicas() == "a:abc a4 b4 c0 hw0"


def test_who_lagged_before_the_isr_changed_is_looked_at_again(log: ReplicatedLog) -> None:
    before = lagging(log, "b")
    log.submit(DropLagging((lagging(log, "c"),)))
    with pytest.raises(InvalidUpdateVersion):
        log.submit(DropLagging((before,)))


def test_a_store_that_has_no_replica_can_not_lag(log: ReplicatedLog) -> None:
    with pytest.raises(NotLeaderOrFollower, match="store z has no replica"):
        log.submit(DropLagging((lagging(log, "z"),)))


# ---- elections ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "unclean", "kind", "text"),
    [
        (None, False, ElectionNotNeeded, "orders-0: store a leads the partition and can be reached"),
        (None, True, ElectionNotNeeded, "can be reached"),
        ("a", False, ElectionNotNeeded, "store a already leads the partition"),
        ("b", False, PreferredLeaderNotAvailable, "store b ends at offset 0 of 4"),
        ("b", True, PreferredLeaderNotAvailable, "store a leads and can be reached"),
        (
            "z",
            False,
            IneligibleReplica,
            r"store z has no replica of the partition, its replicas are on \['a', 'b', 'c'\]",
        ),
    ],
)
def test_an_election_that_is_not_to_be_is_refused(
    log: ReplicatedLog, store: str | None, unclean: bool, kind: type[SparklogError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        log.elect(store, unclean=unclean)
    assert log.replicas() == "a:abc a4 b0 c0 hw0"


def test_the_lead_passes_to_a_replica_that_lacks_nothing_and_back(log: ReplicatedLog) -> None:
    log.report("b", 4)
    log.elect("b")
    assert log.replicas() == "b:abc a4 b4 c0 hw0"
    log.elect("a")
    assert (log.value().leader, log.value().epochs) == ("a", ((0, 0), (2, 4)))


def test_an_unreachable_replica_is_not_elected(log: ReplicatedLog) -> None:
    log.report("b", 4)
    log.submit(AgentDown(StoreId("b"), 1))
    with pytest.raises(PreferredLeaderNotAvailable, match="store b can't be reached"):
        log.elect("b")


# M: P-06
def test_only_an_unclean_election_gives_up_committed_records(log: ReplicatedLog) -> None:
    log.write("a", 1)
    log.fence("a")
    assert log.replicas() == "-:+a a5 b0 c0 hw5"
    with pytest.raises(EligibleLeadersNotAvailable, match="orders-0: a leader needs every record below the high"):
        log.elect()
    with pytest.raises(EligibleLeadersNotAvailable, match="only an unclean election makes it the leader"):
        log.elect("c")
    log.elect(unclean=True)
    assert log.replicas() == "b:b a5 b5 c5 hw5"
    assert log.value().lost == (offsets(0, 5),)


def test_of_many_elections_those_that_are_not_needed_are_passed_over() -> None:
    log = ReplicatedLog(partitions=2)
    both = tuple(Election(TOPIC, PartitionIndex(at), StoreId("a")) for at in (0, 1))
    log.submit(ElectLeaders((Election(TOPIC, PartitionIndex(1), StoreId("b")),)))
    log.submit(ElectLeaders(both))
    assert [log.value(at).leader_epoch for at in (0, 1)] == [0, 2]
    with pytest.raises(ElectionNotNeeded):
        log.submit(ElectLeaders(both))


# ---- moves --------------------------------------------------------------------------------------------


@pytest.fixture
def wide() -> ReplicatedLog:
    """With a store d, which has no replica."""
    made = ReplicatedLog(stores="abcd")
    made.write("abc", 4)
    return made


# M: P-11
def test_a_move_is_done_when_the_new_replica_is_in_sync(wide: ReplicatedLog) -> None:
    wide.move("dbc")
    assert wide.replicas() == "a:bca d0 b4 c4 a4 hw4"
    assert (wide.value().adding, wide.value().removing) == (("d",), ("a",))
    wide.report("d", 4)
    assert wide.replicas() == "d:dbc d4 b4 c4 hw4"
    assert (wide.value().adding, wide.value().removing) == ((), ())


def test_a_write_that_reaches_the_new_replica_ends_the_move(wide: ReplicatedLog) -> None:
    wide.move("abd")
    wide.report_of("d", 0)
    wide.write("abc", 1)
    wide.report("d", 5)
    wide.write("abd", 1)
    assert wide.replicas() == "a:abd a6 b6 d6 hw6"


@pytest.mark.parametrize(
    ("to", "kind", "text"),
    [
        ("abz", InvalidReplicaAssignment, r"orders-0: wanted stores of \['a', 'b', 'c', 'd'\], found \['z'\]"),
        ("aab", InvalidReplicaAssignment, "different stores"),
        ("", InvalidReplicaAssignment, "different stores"),
    ],
)
def test_a_move_that_can_not_be_is_refused(wide: ReplicatedLog, to: str, kind: type[SparklogError], text: str) -> None:
    with pytest.raises(kind, match=text):
        wide.move(to)
    assert wide.replicas() == "a:abc a4 b4 c4 hw4"


def test_nothing_moves_to_a_fenced_store(wide: ReplicatedLog) -> None:
    wide.fence("d")
    with pytest.raises(InvalidReplicaAssignment, match=r"stores \['d'\] are fenced or not registered"):
        wide.move("abd")


def test_moves_begin_together_or_not_at_all() -> None:
    log = ReplicatedLog(stores="abcd", partitions=2)
    with pytest.raises(InvalidReplicaAssignment):
        log.submit(
            MoveReplicas(
                (
                    Move(TOPIC, PartitionIndex(0), stores("a", "b", "d")),
                    Move(TOPIC, PartitionIndex(1), stores("a", "b", "z")),
                )
            )
        )
    assert log.value(0).adding == ()


# ---- a topic that is not there ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ReportReplicas(StoreId("a"), 0, (ReplicaReport(TopicId(9), PartitionIndex(0), LeaderEpoch(0), 0, Offset(0)),)),
        DropLagging((LaggingReplicas(TopicId(9), PartitionIndex(0), LeaderEpoch(0), 0, ()),)),
        ElectLeaders((Election(TopicId(9), PartitionIndex(0)),)),
        MoveReplicas((Move(TopicId(9), PartitionIndex(0), stores("a")),)),
    ],
)
def test_replicas_of_a_topic_that_was_deleted_are_nobodys(log: ReplicatedLog, command: Command) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="topic id 9 is not in the cluster"):
        log.submit(command)


# M: L-04
def test_a_report_under_an_older_epoch_is_fenced(log: ReplicatedLog) -> None:
    before = log.report_of("c", 2)
    log.report("b", 4)
    log.elect("b")
    with pytest.raises(FencedLeaderEpoch, match="orders-0: it was begun under epoch 0, the partition is at epoch 1"):
        log.submit(before)


# M: P-05
def test_too_few_in_sync_take_no_write_until_a_follower_is_back(log: ReplicatedLog) -> None:
    log.configure(min_insync_replicas="2")
    for each in "bc":
        log.fence(each)
    with pytest.raises(NotEnoughReplicas):
        log.write("a", 1)
    log.write("a", 1, acks=Acks.LEADER)
    assert log.replicas() == "a:a+c a5 b0 c0 hw0"
    log.register("b")
    log.report("b", 5)
    assert log.replicas() == "a:ab a5 b5 c0 hw5"


def test_a_move_does_not_end_with_a_leader_that_is_silent() -> None:
    """d is in sync, and its agent fell silent before e had everything."""
    log = ReplicatedLog(stores="abcde")
    log.write("abc", 1)
    log.move("de")
    log.report("d", 1)
    log.submit(AgentDown(StoreId("d"), log.registration("d")))
    log.report("e", 1)
    assert log.replicas() == "e:de d1 e1 hw1"
