"""Three stores in memory: what is written is read from any of them, as the chain says, and deleted from all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql.types import BinaryType, StructField, StructType

from sparklog.chain.commit import command_group
from sparklog.chain.follow.follower import Follower
from sparklog.client.cluster import Cluster
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import append_command
from sparklog.core.commands import (
    AgentDown,
    Election,
    ElectLeaders,
    FenceStore,
    MoveLogStart,
    Submission,
)
from sparklog.core.errors import (
    DataLoss,
    InvalidInput,
    Landed,
    NoReplicaOnline,
    StoreUnavailable,
    UnknownTopicOrPartition,
    WriteLost,
)
from sparklog.core.reading.plan import RangeToRead, plan_range
from sparklog.core.records import AgentChanged, AppendedByReference
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, StoreId
from sparklog.log.read.scan import scan
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.options.typed import parse_write_options
from sparklog.spark.write.batch_writer import begin_write
from sparklog.storage.keys import INCARNATION
from tests.client.interfered_stores import failing, interfere
from tests.client.replicated_cluster import (
    TOPIC,
    come_back,
    copy_all,
    objects,
    planned_write,
    replicas,
    report,
    store,
    uploaded,
    write,
)
from tests.core.state_contents import contents
from tests.kit.hand_clock import HandClock
from tests.kit.log import values

VALUE = StructType([StructField("value", BinaryType())])


def test_a_write_is_on_every_store_and_read_from_any(cluster: Cluster) -> None:
    assert objects(cluster, "a") == objects(cluster, "b") == objects(cluster, "c")
    for key in [*objects(cluster, "a"), *objects(cluster, "b")]:
        for each in "ab":
            store(cluster, each).delete(key)
    assert values(cluster) == ["0", "1", "2"]


def test_writes_go_on_without_a_store_that_was_fenced(cluster: Cluster) -> None:
    cluster.submit(FenceStore(StoreId("a")))
    write(cluster, "3")
    assert replicas(cluster) == "b:bc a3 b4 c4"
    assert len(objects(cluster, "a")) == 2
    assert values(cluster) == ["0", "1", "2", "3"]


def test_a_topic_whose_stores_are_all_fenced_takes_nothing_and_is_not_rolled(cluster: Cluster) -> None:
    for each in "abc":
        cluster.submit(FenceStore(StoreId(each)))
    with pytest.raises(NoReplicaOnline, match="t-0: no store of its replicas could be reached"):
        cluster.append("t", pa.table({"value": ["3"]}), timeout_ms=1)
    assert run_roll(cluster.connection.url, everything=True).exit_code == 0
    assert values(cluster) == ["0", "1", "2"]


def test_a_copy_that_a_store_reports_is_read_and_deleted_with_the_others(cluster: Cluster) -> None:
    cluster.submit(FenceStore(StoreId("a")))
    write(cluster, "3")
    come_back(cluster, "a")
    copy_all(cluster, "b", "a")
    report(cluster, "a")
    assert replicas(cluster) == "b:abc a4 b4 c4"
    kept = objects(cluster, "a")
    for each in "bc":
        for key in kept:
            store(cluster, each).delete(key)
    assert values(cluster) == ["0", "1", "2", "3"]
    for each in "bc":
        copy_all(cluster, "a", each)
    cluster.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(4)))
    run_retention(cluster.connection.url, clock=HandClock(at_ms=1 << 45))
    assert [objects(cluster, each) for each in "abc"] == [[], [], []]


def test_records_that_an_unclean_election_gave_up_are_not_passed_over_in_silence(cluster: Cluster) -> None:
    for each in "bc":
        cluster.submit(FenceStore(StoreId(each)))
    write(cluster, "3", "4")
    cluster.submit(FenceStore(StoreId("a")))
    come_back(cluster, "b")
    assert replicas(cluster) == "-:+a a5 b3 c3"
    cluster.submit(ElectLeaders((Election(TOPIC, PartitionIndex(0)),), unclean=True))
    write(cluster, "5")
    with pytest.raises(
        DataLoss,
        match=r"t-0: records \[3, 5\) were lost in an unclean election or given up as damaged; fail_on_data_loss=False",
    ):
        values(cluster)
    for start, end, found in ((0, 3, [0, 1, 2]), (5, 6, [5])):
        assert cluster.read("t", partition=0, start=start, end=end)["offset"].to_pylist() == found
    state = cluster.connection.newest_state()
    plan = plan_range(state, state.topics[TOPIC], 0, OffsetRange(Offset(0), Offset(6)))
    stores = cluster.connection.stores(state)
    left = scan(plan, stores, ["offset"], cluster.connection.replan, fail_on_data_loss=False)
    assert [offset for each in left for offset in each["offset"].to_pylist()] == [0, 1, 2, 5]


@pytest.fixture
def planned(cluster: Cluster) -> RangeToRead:
    """A plan of [0, 6), of which [3, 6) is on a alone, a record in each object."""
    for each in "bc":
        cluster.submit(FenceStore(StoreId(each)))
    for value in "345":
        write(cluster, value)
    state = cluster.connection.newest_state()
    return plan_range(state, state.topics[TOPIC], 0, OffsetRange(Offset(0), Offset(6)))


def lead_without_the_last_three(cluster: Cluster) -> None:
    """b leads from now on, and goes on at offset 6."""
    cluster.submit(FenceStore(StoreId("a")))
    come_back(cluster, "b")
    cluster.submit(ElectLeaders((Election(TOPIC, PartitionIndex(0)),), unclean=True))
    write(cluster, "6")
    assert replicas(cluster) == "b:b a6 b7 c6"


def delete_what_was_forgotten(cluster: Cluster) -> None:
    """It is an orphan once FLOOR has passed it, on every store that is not fenced."""
    for known in cluster.connection.follower.state.stores.values():
        if known.fenced:
            come_back(cluster, known.store)
    run_vacuum(cluster.connection.url, clock=HandClock(at_ms=1 << 45))


def scanned(cluster: Cluster, plan: RangeToRead, *, fail_on_data_loss: bool = True) -> Iterator[str]:
    stores = cluster.connection.stores(cluster.connection.follower.state)
    found = scan(plan, stores, ["value"], cluster.connection.replan, fail_on_data_loss=fail_on_data_loss)
    return (value.decode() for each in found for value in each["value"].to_pylist())


# M: S-09
def test_a_read_from_before_an_unclean_election_gives_what_it_was_planned_for_while_it_is_there(
    cluster: Cluster, planned: RangeToRead
) -> None:
    lead_without_the_last_three(cluster)
    assert list(scanned(cluster, planned)) == list("012345")


# M: S-09
@pytest.mark.parametrize("before", [0, 3, 5])
def test_a_read_from_before_an_unclean_election_names_all_that_was_given_up(
    cluster: Cluster, planned: RangeToRead, before: int
) -> None:
    """Also what it had yielded already: `before` records."""
    reading = scanned(cluster, planned)
    assert [next(reading) for _ in range(before)] == list("012345"[:before])
    lead_without_the_last_three(cluster)
    delete_what_was_forgotten(cluster)
    assert [next(reading) for _ in range(max(0, 3 - before))] == list("012"[before:])
    with pytest.raises(DataLoss, match=r"t-0: records \[3, 6\) were lost in an unclean election"):
        next(reading)


# M: S-09
def test_a_read_from_before_an_unclean_election_goes_on_with_what_is_left_if_it_may(
    cluster: Cluster, planned: RangeToRead
) -> None:
    lead_without_the_last_three(cluster)
    delete_what_was_forgotten(cluster)
    assert list(scanned(cluster, planned, fail_on_data_loss=False)) == list("012")


# M: S-09
def test_a_read_from_before_a_clean_election_and_a_roll_gives_the_same_records(cluster: Cluster) -> None:
    state = cluster.connection.newest_state()
    planned = plan_range(state, state.topics[TOPIC], 0, OffsetRange(Offset(0), Offset(3)))
    cluster.submit(FenceStore(StoreId("a")))
    cluster.alter("t", config={"rewrite.delete.delay.ms": 0})
    run_roll(cluster.connection.url, everything=True)
    delete_what_was_forgotten(cluster)
    for key in objects(cluster, "a"):
        store(cluster, "a").delete(key)
    assert list(scanned(cluster, planned)) == list("012")


# M: L-05
def test_the_ends_of_leader_epochs_are_as_kafka_says(cluster: Cluster, planned: RangeToRead) -> None:
    lead_without_the_last_three(cluster)
    newest = planned.leader_epoch + 1
    assert [cluster.offsets_for_leader_epoch("t", 0, epoch) for epoch in (newest, newest + 1)] == [(newest, 7), None]
    assert cluster.offsets_for_leader_epoch("t", 0, planned.leader_epoch) == (planned.leader_epoch, 6)
    cluster.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(7)))
    assert cluster.offsets_for_leader_epoch("t", 0, 0) == (0, 7)
    with pytest.raises(InvalidInput, match="a leader epoch is 0 or greater, found -1"):
        cluster.offsets_for_leader_epoch("t", 0, -1)
    with pytest.raises(UnknownTopicOrPartition):
        cluster.offsets_for_leader_epoch("t", 1, 0)


def test_a_write_that_an_election_cut_is_no_success_when_it_is_sent_again(cluster: Cluster) -> None:
    connection = cluster.connection
    plan = planned_write(cluster)
    written = [upload_task_rows(plan, pa.table({"value": [value]}).to_batches()) for value in (b"3", b"4")]
    command = append_command(plan, written)
    assert command is not None
    first, second = command.objects
    cut = replace(
        command,
        objects=(replace(first, holders=first.holders[:2]), replace(second, holders=second.holders[:1])),
        acks=Acks.LEADER,
    )
    submission = Submission(plan.command_id, plan.n0, cut)
    assert connection.committer.submit(submission).records == 2
    cluster.submit(FenceStore(StoreId("a")))
    with pytest.raises(WriteLost, match=r"given up t-0 \[4, 5\) since; the rest of it is there") as caught:
        connection.committer.submit(replace(submission, in_doubt=True))
    assert caught.value.landed is Landed.YES
    write(cluster, "5")
    assert values(cluster) == ["0", "1", "2", "3", "5"]


@pytest.mark.parametrize("inline", [0, 1_000], ids=["by reference", "inline"])
def test_an_application_that_lost_a_version_is_refused_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, inline: int
) -> None:
    monkeypatch.setattr(command_group, "SLICES_INLINE", inline)
    rows = pa.table({"value": ["x"]})
    for each in "bc":
        cluster.submit(FenceStore(StoreId(each)))
    for version in range(3):
        cluster.append("t", rows, application=("job", version))
    lead_without_the_last_three(cluster)
    monkeypatch.setattr("sparklog.spark.write.batch_writer.shared", lambda *_: cluster.connection)
    asked = {"cluster": "/elsewhere", "topic": "t", "txnAppId": "job"}
    for version in ("1", "2"):  # a Spark write is not passed over as written before
        assert begin_write(parse_write_options(asked | {"txnVersion": version}), VALUE).done is None
    with pytest.raises(WriteLost, match=r"version 2 of job was lost in an unclean election: t-0 \[5, 6\)") as caught:
        cluster.append("t", rows, application=("job", 2))
    assert caught.value.landed is Landed.NO
    assert cluster.append("t", rows, application=("job", 2)).records == 1
    assert begin_write(parse_write_options(asked | {"txnVersion": "2"}), VALUE).done == 2
    assert cluster.append("t", rows, application=("job", 3)).records == 1
    assert cluster.describe("t").partitions[0].high_watermark == 9


def test_a_large_write_that_a_store_lacks_is_the_same_to_who_reads_the_chain(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By reference: its slices are not in the entry, and what becomes of replicas and stores is."""
    monkeypatch.setattr(command_group, "SLICES_INLINE", 0)
    connection = cluster.connection
    plan, written = uploaded(cluster, "3")
    command = append_command(plan, [written])
    assert command is not None
    cluster.submit(AgentDown(StoreId("b"), 1))
    on_two = tuple(replace(each, holders=each.holders[:2]) for each in command.objects)
    connection.committer.submit(Submission(plan.command_id, plan.n0, replace(command, objects=on_two)))
    assert replicas(cluster) == "a:ab a4 b4 c3"
    record, reached = connection.follower.entries([connection.follower.state.n]).__next__().commands[0].records
    assert isinstance(record, AppendedByReference)
    assert reached == AgentChanged(StoreId("b"), up=None)
    other = Follower(connection.follower.store)
    other.catch_up()
    assert contents(other.state) == contents(connection.follower.state)


def test_a_roll_is_written_to_the_stores_in_sync_and_goes_to_the_others_by_a_copy(cluster: Cluster) -> None:
    cluster.submit(FenceStore(StoreId("c")))
    run_roll(cluster.connection.url, everything=True)
    cluster.connection.follower.catch_up()
    assert replicas(cluster) == "a:ab a3 b3 c0"  # c has what was there before, and not what stands there now
    assert values(cluster) == ["0", "1", "2"]


def test_a_dead_store_does_not_stop_a_roll(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = interfere(monkeypatch)
    calls.before["b"] = failing(StoreUnavailable("b does not answer"))
    assert run_roll(cluster.connection.url, everything=True).exit_code == 0
    cluster.connection.follower.catch_up()
    assert replicas(cluster) == "a:ac a3 b0 c3"
    assert values(cluster) == ["0", "1", "2"]


def test_a_store_that_was_wiped_has_nothing_of_a_roll(cluster: Cluster) -> None:
    store(cluster, "b").delete(INCARNATION)
    assert run_roll(cluster.connection.url, everything=True).exit_code == 0
    cluster.connection.follower.catch_up()
    assert replicas(cluster) == "a:ac a3 b0 c3"


def test_a_roll_on_too_few_stores_is_not_swapped_in(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.alter("t", config={"min.insync.replicas": 2})
    calls = interfere(monkeypatch)
    for name in "bc":
        calls.before[name] = failing(StoreUnavailable(f"{name} does not answer"))
    report = run_roll(cluster.connection.url, everything=True)
    assert report.exit_code == 1
    cluster.connection.follower.catch_up()
    assert replicas(cluster) == "a:abc a3 b3 c3"
