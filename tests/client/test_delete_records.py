"""`cluster.delete_records`: on several stores, without a leader, through a coordinator, and if a part of it fails."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import sparklog
from sparklog.client import delete_records as deletion_module
from sparklog.client.cluster import Cluster
from sparklog.client.delete_records import delete_records, plan_deletions
from sparklog.core.commands import Election, ElectLeaders, FenceStore
from sparklog.core.errors import (
    Landed,
    OffsetOutOfRange,
    PolicyViolation,
    SparklogError,
    StoreUnavailable,
    UnknownTopicOrPartition,
)
from sparklog.core.types import StoreId
from sparklog.maintenance.space.retention_job import run_retention
from tests.client.replicated_cluster import P0, TOPIC, come_back, copy_all, objects, replicas, report, write
from tests.coordinator.served_coordinator import served_coordinator
from tests.kit.hand_clock import HandClock
from tests.kit.log import new_cluster, values

WIDE = pa.table({"value": ["a", "b", "c"] * 2, "partition": pa.array([0, 0, 0, 1, 1, 1], pa.int32())})


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic "t" on a, b and c: offsets [0, 3) in one object, [3, 5) in another."""
    with new_cluster("abc") as connected:
        connected.create_topic("t", assignment=["abc"], config={"file.delete.delay.ms": 0, "retention.ms": -1})
        write(connected, "0", "1", "2")
        write(connected, "3", "4")
        yield connected


@pytest.fixture
def wide() -> Iterator[Cluster]:
    """Topic "t" with two partitions of three records each."""
    with new_cluster() as connected:
        connected.create_topic("t", partitions=2)
        connected.append("t", WIDE)
        yield connected


# M: R-05
def test_records_go_up_to_any_offset_and_minus_one_is_the_high_watermark(wide: Cluster) -> None:
    assert wide.delete_records("t", {0: 1}) == {0: 1}
    assert values(wide) == ["b", "c"]
    with pytest.raises(OffsetOutOfRange, match=r"wanted \[0, 3\), the readable range is \[1, 3\)"):
        wide.read("t", partition=0, start=0)
    assert wide.delete_records("t", {1: -1, 0: 2}) == {0: 2, 1: 3}
    assert (values(wide), values(wide, 1)) == (["c"], [])
    assert wide.delete_records("t", {0: 1, 1: 0}) == {0: 2, 1: 3}, "the log starts are higher already"
    assert wide.append("t", pa.table({"value": ["d"], "partition": pa.array([1], pa.int32())})).ranges[0].start == 3
    assert values(wide, 1) == ["d"]


# M: R-05
def test_one_bad_offset_changes_nothing_anywhere(wide: Cluster) -> None:
    n = wide.connection.follower.catch_up().state.n
    for bad, kind in (({0: 1, 1: 4}, OffsetOutOfRange), ({0: 1, 2: 0}, UnknownTopicOrPartition)):
        with pytest.raises(kind):
            wide.delete_records("t", bad)
    wide.alter("t", config={"cleanup.policy": "compact"})
    with pytest.raises(PolicyViolation, match=r"records of t-0 can't be deleted by offset"):
        wide.delete_records("t", {0: 1})
    assert wide.connection.follower.catch_up().state.n == n + 1, "the entry of the changed config"
    assert values(wide) == values(wide, 1) == ["a", "b", "c"]


def test_a_partition_that_fails_stops_no_other_and_the_call_may_be_repeated(
    wide: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = wide.connection.committer
    begin = committer.begin

    def unavailable(command: object) -> object:
        if getattr(command, "partition", None) == 0:
            raise StoreUnavailable("the store is away")
        return begin(command)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(committer, "begin", unavailable)
        with pytest.raises(
            StoreUnavailable, match="t-0: the store is away; 1 of 2 partitions done; the same call may"
        ) as failed:
            wide.delete_records("t", {0: 2, 1: 2})
        assert failed.value.landed is Landed.UNKNOWN
        with pytest.raises(StoreUnavailable) as failed:
            wide.delete_records("t", {0: 2})
        assert failed.value.landed is Landed.NO
    assert (values(wide), values(wide, 1)) == (["a", "b", "c"], ["c"])
    assert wide.delete_records("t", {0: 2, 1: 2}) == {0: 2, 1: 2}


def test_records_that_come_between_plan_and_deletion_stay(wide: Cluster) -> None:
    planned = plan_deletions(wide.connection, "t", {0: deletion_module.HIGH_WATERMARK})
    wide.append("t", WIDE)
    assert delete_records(wide.connection, planned) == [3]
    assert values(wide) == ["a", "b", "c"]


def test_a_topic_that_was_created_again_since_the_plan_keeps_its_records(wide: Cluster) -> None:
    planned = plan_deletions(wide.connection, "t", {0: 2})
    wide.delete_topic("t")
    wide.create_topic("t", partitions=2)
    wide.append("t", WIDE)
    (outcome,) = delete_records(wide.connection, planned)
    assert isinstance(outcome, UnknownTopicOrPartition)
    assert values(wide) == ["a", "b", "c"]


# ---- several stores -----------------------------------------------------------------------------------


# M: R-05
def test_every_replica_begins_at_the_new_log_start_and_objects_go_from_all_stores(cluster: Cluster) -> None:
    assert cluster.delete_records("t", {0: 4}) == {0: 4}
    assert (replicas(cluster), values(cluster)) == ("a:abc a5 b5 c5", ["4"])
    run_retention(cluster.connection.url, clock=HandClock(at_ms=1 << 45))
    assert [len(objects(cluster, each)) for each in "abc"] == [2, 2, 2], "the object that is cut stays, with its index"
    assert values(cluster) == ["4"]


# M: R-05
def test_a_follower_that_lacked_the_deleted_records_goes_on_at_the_new_log_start(cluster: Cluster) -> None:
    cluster.submit(FenceStore(StoreId("c")))
    write(cluster, "5", "6")
    come_back(cluster, "c")
    cluster.delete_records("t", {0: 6})
    assert replicas(cluster) == "a:ab a7 b7 c6", "in the middle of [5, 7), of which c has nothing"
    copy_all(cluster, "a", "c")
    report(cluster, "c")
    assert replicas(cluster) == "a:abc a7 b7 c7"
    for each in "ab":
        cluster.submit(FenceStore(StoreId(each)))
    assert values(cluster) == ["6"], "c leads"


# M: R-05
def test_records_of_a_partition_without_a_leader_are_deleted_and_none_come_back(cluster: Cluster) -> None:
    """b comes back with less than was deleted: it may lead without loss, because nothing committed is left to lose."""
    cluster.submit(FenceStore(StoreId("b")))
    cluster.submit(FenceStore(StoreId("c")))
    write(cluster, "5", "6")
    cluster.submit(FenceStore(StoreId("a")))
    come_back(cluster, "b")
    assert replicas(cluster) == "-:+a a7 b5 c5"
    with pytest.raises(OffsetOutOfRange):
        cluster.delete_records("t", {0: 8})
    assert cluster.delete_records("t", {0: -1}) == {0: 7}
    assert (replicas(cluster), values(cluster)) == ("-:+a a7 b7 c7", [])
    cluster.submit(ElectLeaders((Election(TOPIC, P0),), unclean=True))
    state = cluster.connection.follower.catch_up().state
    assert state.partitions_of(state.topics[TOPIC])[0].replication.lost == ()
    assert write(cluster, "7").ranges[0].start == 7
    come_back(cluster, "a")
    assert values(cluster) == ["7"]


# ---- through a coordinator ----------------------------------------------------------------------------


# M: R-05
def test_records_are_deleted_through_a_coordinator(wide: Cluster) -> None:
    with served_coordinator(wide.connection.url) as coordinator, sparklog.connect(coordinator.address) as cluster:
        assert cluster.delete_records("t", {0: 1, 1: -1}) == {0: 1, 1: 3}
        with pytest.raises(SparklogError, match="OFFSET_OUT_OF_RANGE"):
            cluster.delete_records("t", {0: 4})
    wide.connection.follower.catch_up()
    assert (values(wide), values(wide, 1)) == (["b", "c"], [])
