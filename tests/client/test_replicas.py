"""Three stores in memory: what is written is read from any of them, as the chain says, and deleted from all of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest
from msgspec.structs import replace

import sparklog
from sparklog.chain import group
from sparklog.chain.committer import new_command_id
from sparklog.chain.follower import Follower
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.write_plan import append_command, plan_write
from sparklog.client.write_rows import write_rows
from sparklog.core.commands import (
    Command,
    Election,
    ElectLeaders,
    FenceStore,
    MoveLogStart,
    NewStore,
    RegisterStore,
    ReplicaReport,
    ReportReplicas,
    Submission,
)
from sparklog.core.errors import DataLoss, NoReplicaOnline, StoreUnavailable
from sparklog.core.plan import plan_range
from sparklog.core.records import AppendedByReference, CommandResult
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, StoreId, TopicId
from sparklog.log.scan import scan
from sparklog.log.stores import Stores
from sparklog.maintenance.retention import run_retention
from sparklog.maintenance.roll import run_roll
from sparklog.storage.keys import INCARNATION
from sparklog.storage.object_store import ObjectStore
from tests.client.interfered_stores import failing, interfere
from tests.core.replication.example_partition import ends, roles
from tests.core.state_contents import contents
from tests.maintenance.maintained_log import StandingClock

TOPIC = TopicId(1)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic "t" with a partition on a, b and c; offsets [0, 3) are on all of them."""
    root = uuid.uuid4().hex
    init_cluster(f"memory://{root}", stores={each: f"memory://{root}-{each}" for each in "abc"})
    with sparklog.connect(f"memory://{root}") as connected:
        connected.create_topic("t", assignment=[["a", "b", "c"]], config={"file.delete.delay.ms": 0})
        write(connected, "0", "1", "2")
        yield connected


def write(cluster: Cluster, *values: str) -> CommandResult:
    return cluster.append("t", pa.table({"value": list(values)}))


def submit(cluster: Cluster, command: Command) -> CommandResult:
    committer = cluster.connection.committer
    return committer.submit(committer.begin(command))


def values(cluster: Cluster) -> list[str]:
    return [each.decode() for each in cluster.read("t", partition=0)["value"].to_pylist()]


def replicas(cluster: Cluster) -> str:
    state = cluster.connection.follower.state
    value = state.partitions_of(state.topics[TOPIC])[0].replication
    return f"{roles(value)} {ends(value)}"


def store(cluster: Cluster, name: str) -> ObjectStore:
    state = cluster.connection.follower.state
    opened: Stores = cluster.connection.stores(state)
    return opened.get(StoreId(name))


def objects(cluster: Cluster, name: str) -> list[str]:
    return sorted(each.key for folder in ("append/", "topics/") for each in store(cluster, name).list_keys(folder))


def report(cluster: Cluster, name: str) -> None:
    state = cluster.connection.follower.state
    value = state.partitions_of(state.topics[TOPIC])[0].replication
    said = ReplicaReport(TOPIC, PartitionIndex(0), value.leader_epoch, value.version, value.next_offset)
    submit(cluster, ReportReplicas(StoreId(name), state.stores[StoreId(name)].registration, (said,)))


def copy_all(cluster: Cluster, of: str, to: str) -> None:
    for key in objects(cluster, of):
        if key not in objects(cluster, to):
            store(cluster, to).put_if_absent(key, bytes(store(cluster, of).get(key)))


def test_a_write_is_on_every_store_and_read_from_any(cluster: Cluster) -> None:
    assert objects(cluster, "a") == objects(cluster, "b") == objects(cluster, "c")
    for key in [*objects(cluster, "a"), *objects(cluster, "b")]:
        for each in "ab":
            store(cluster, each).delete(key)
    assert values(cluster) == ["0", "1", "2"]


def test_writes_go_on_without_a_store_that_was_fenced(cluster: Cluster) -> None:
    submit(cluster, FenceStore(StoreId("a")))
    write(cluster, "3")
    assert replicas(cluster) == "b:bc a3 b4 c4"
    assert len(objects(cluster, "a")) == 2
    assert values(cluster) == ["0", "1", "2", "3"]


def test_a_topic_whose_stores_are_all_fenced_takes_nothing_and_has_nothing_to_roll(cluster: Cluster) -> None:
    for each in "abc":
        submit(cluster, FenceStore(StoreId(each)))
    with pytest.raises(NoReplicaOnline, match="t-0: no store of its replicas could be reached"):
        cluster.append("t", pa.table({"value": ["3"]}), timeout_ms=1)
    assert run_roll(cluster.connection.url, everything=True).exit_code == 0
    assert values(cluster) == ["0", "1", "2"]


def test_a_copy_that_a_store_reports_is_read_and_deleted_with_the_others(cluster: Cluster) -> None:
    submit(cluster, FenceStore(StoreId("a")))
    write(cluster, "3")
    state = cluster.connection.follower.state
    back = state.stores[StoreId("a")]
    submit(cluster, RegisterStore(NewStore(back.store, back.url, back.incarnation)))
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
    submit(cluster, MoveLogStart(TOPIC, PartitionIndex(0), Offset(4)))
    run_retention(cluster.connection.url, clock=StandingClock(at_ms=1 << 45))
    assert [objects(cluster, each) for each in "abc"] == [[], [], []]


def test_records_that_an_unclean_election_gave_up_are_not_passed_over_in_silence(cluster: Cluster) -> None:
    for each in "bc":
        submit(cluster, FenceStore(StoreId(each)))
    write(cluster, "3", "4")
    submit(cluster, FenceStore(StoreId("a")))
    state = cluster.connection.follower.state
    back = state.stores[StoreId("b")]
    submit(cluster, RegisterStore(NewStore(back.store, back.url, back.incarnation)))
    assert replicas(cluster) == "-:+a a5 b3 c3"
    submit(cluster, ElectLeaders((Election(TOPIC, PartitionIndex(0)),), unclean=True))
    write(cluster, "5")
    with pytest.raises(DataLoss, match=r"t-0: records \[3, 5\) were lost in an unclean election; set failOnDataLoss"):
        values(cluster)
    for start, end, found in ((0, 3, [0, 1, 2]), (5, 6, [5])):
        assert cluster.read("t", partition=0, start=start, end=end)["offset"].to_pylist() == found
    with cluster.connection.follower.current() as state:
        plan = plan_range(state, state.topics[TOPIC], 0, OffsetRange(Offset(0), Offset(6)))
        stores = cluster.connection.stores(state)
    left = scan(plan, stores, ["offset"], cluster.connection.replan, fail_on_data_loss=False)
    assert [offset for each in left for offset in each["offset"].to_pylist()] == [0, 1, 2, 5]


def test_a_large_write_that_a_store_lacks_is_the_same_to_who_reads_the_chain(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By reference: its slices are not in the entry, and what becomes of the replicas is."""
    monkeypatch.setattr(group, "SLICES_INLINE", 0)
    connection = cluster.connection
    with connection.follower.current() as state:
        plan = plan_write(
            state, connection.places(state), new_command_id(), topic="t", compression=None, now_ms=1 << 40
        )
    written = write_rows(plan, pa.table({"value": [b"3"]}).to_batches())
    command = append_command(plan, [written])
    assert command is not None
    on_two = tuple(replace(each, holders=each.holders[:2]) for each in command.objects)
    connection.committer.submit(Submission(plan.command_id, plan.n0, replace(command, objects=on_two)))
    assert replicas(cluster) == "a:ab a4 b4 c3"
    (record,) = connection.follower.entries([connection.follower.state.n]).__next__().commands[0].records
    assert isinstance(record, AppendedByReference)
    other = Follower(connection.follower.store)
    other.catch_up()
    assert contents(other.state) == contents(connection.follower.state)


def test_a_roll_is_written_to_the_stores_in_sync_and_goes_to_the_others_by_a_copy(cluster: Cluster) -> None:
    submit(cluster, FenceStore(StoreId("c")))
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
