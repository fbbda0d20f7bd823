"""Commits that are refused at first: another store leads by now, or none does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparklog.chain.commit import command_group
from sparklog.chain.commit.command_body import encode_body
from sparklog.chain.follow.follower import Follower
from sparklog.client.cluster import Cluster
from sparklog.client.plans import plan_and_upload as upload_module
from sparklog.client.plans.write_plan import Durability, append_command
from sparklog.core.commands import (
    Election,
    ElectLeaders,
    FenceStore,
    ReportLoss,
)
from sparklog.core.errors import (
    FencedLeaderEpoch,
    Landed,
    NoReplicaOnline,
    NotEnoughReplicas,
    SparklogError,
    StaleBrokerEpoch,
)
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import StoreId
from sparklog.host import deadline
from sparklog.storage.keys import INCARNATION
from tests.client.interfered_stores import StoreCalls, tick
from tests.client.replicated_cluster import (
    P0,
    TOPIC,
    A,
    B,
    C,
    come_back,
    commit,
    objects,
    replicas,
    store,
    uploaded,
    write,
)
from tests.core.state_contents import contents
from tests.kit.faulty_store import Fault, FaultyStore
from tests.kit.hand_clock import HandClock
from tests.kit.log import values


def elect(cluster: Cluster, leader: str) -> None:
    cluster.submit(ElectLeaders((Election(TOPIC, P0, StoreId(leader)),)))


# M: L-04
def test_a_write_that_was_fenced_is_submitted_under_the_new_epoch_without_another_upload(
    cluster: Cluster, calls: StoreCalls
) -> None:
    plan, written = uploaded(cluster, "3")
    before = list(calls.written)
    elect(cluster, "b")
    result = commit(cluster, plan, written)
    assert calls.written == before
    assert (result.n0, replicas(cluster)) == (plan.n0, "b:abc a4 b4 c4")
    assert values(cluster) == ["0", "1", "2", "3"]


def test_a_refusal_that_may_pass_is_waited_out_for_as_long_as_its_author_wants(cluster: Cluster) -> None:
    plan, written = uploaded(cluster, "3")
    for store_id in (A, B, C):
        cluster.submit(FenceStore(store_id))
    for refusals_ms, least_ms, most_ms in ((None, 10_000, 60_000), (1_000, 1, 1_000), (0, 0, 0)):
        clock = cluster.connection.committer.clock = HandClock()
        begun_ms = clock.monotonic_ms()
        with pytest.raises((FencedLeaderEpoch, StaleBrokerEpoch), match="tried"):
            commit(cluster, plan, written, refusals_ms=refusals_ms)
        assert least_ms <= clock.monotonic_ms() - begun_ms <= most_ms


def test_objects_are_copied_to_a_new_leader_that_lacks_them(cluster: Cluster, calls: StoreCalls) -> None:
    plan, written = uploaded(cluster, "3", durability=Durability(Acks.LEADER, pull=True))
    assert {name for name, _ in calls.written} == {"a"}
    elect(cluster, "b")
    tick(cluster)
    commit(cluster, plan, written)
    assert replicas(cluster) == "b:abc a4 b4 c3"
    assert len(calls.objects()) == 1
    assert objects(cluster, "b") == objects(cluster, "a")
    assert len([1 for name, key in calls.written if name == "b"]) == 2, "the object and its index, once"


def test_a_copy_in_another_life_of_the_store_is_none(cluster: Cluster, calls: StoreCalls) -> None:
    plan, written = uploaded(cluster, "3", durability=Durability(Acks.LEADER, pull=True))
    elect(cluster, "b")
    store(cluster, "b").delete(INCARNATION)
    tick(cluster)
    with pytest.raises(SparklogError, match=r"store b did not take the write: .*found none: the store was wiped"):
        commit(cluster, plan, written, timeout_ms=1_000)
    assert replicas(cluster) == "b:abc a3 b3 c3"


def test_a_holder_that_was_registered_again_is_looked_at_again(cluster: Cluster, calls: StoreCalls) -> None:
    """Its objects may be gone: it was lost and is another store now."""
    plan, written = uploaded(cluster, "3")
    known = cluster.connection.follower.state.stores[C]
    for key in objects(cluster, "c"):
        store(cluster, "c").delete(key)
    cluster.submit(ReportLoss(C, known.registration, "another life"))
    tick(cluster)
    commit(cluster, plan, written)
    assert replicas(cluster) == "a:ab a4 b4 c0"


# M: I-03
@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST])
def test_a_reply_lost_while_it_is_submitted_again_leaves_the_records_once(
    cluster: Cluster, calls: StoreCalls, fault: Fault
) -> None:
    plan, written = uploaded(cluster, "3")
    elect(cluster, "b")
    faulty = FaultyStore(cluster.connection.follower.store)
    cluster.connection.follower.store = faulty
    faulty.plan(fault, "put_if_absent", "meta/log/")
    first = commit(cluster, plan, written)
    assert commit(cluster, plan, written) == first, "as Spark does if it calls commit again"
    assert values(cluster) == ["0", "1", "2", "3"]


def test_a_large_write_whose_objects_were_copied_has_another_body(
    cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one names holders that are not all."""
    monkeypatch.setattr(command_group, "SLICES_INLINE", 0)
    plan, written = uploaded(cluster, "3", durability=Durability(Acks.LEADER, pull=True))
    command = append_command(plan, [written])
    assert command is not None
    state = cluster.connection.follower.state
    key = f"meta/commands/{plan.n0:020d}-{plan.command_id}"
    cluster.connection.follower.store.put_if_absent(key, encode_body(command.objects, command.slices))
    elect(cluster, "b")
    commit(cluster, plan, written)
    assert state.n < cluster.connection.follower.state.n
    assert cluster.connection.follower.store.size(f"{key}-1")
    other = Follower(cluster.connection.follower.store)
    other.catch_up()
    assert contents(other.state) == contents(cluster.connection.follower.state)
    assert replicas(cluster) == "b:abc a4 b4 c3"


# ---- no leader ----------------------------------------------------------------------------------------


# M: P-09
def test_a_write_waits_for_a_leader_and_lands_in_order(cluster: Cluster, calls: StoreCalls) -> None:
    """b is there and may not lead: it lacks a record. The write goes to b first, then to a, which leads again."""
    producer = cluster.allocate_producer()
    cluster.submit(FenceStore(B))
    cluster.submit(FenceStore(C))
    write(cluster, "3")
    cluster.submit(FenceStore(A))
    come_back(cluster, "b")
    assert replicas(cluster) == "-:+a a4 b3 c3"
    tick(cluster, lambda: None, lambda: come_back(cluster, "a"))
    for sequence in range(2):
        rows = pa.table({"value": [f"{4 + sequence}"], "partition": [0]})
        cluster.append("t", rows, producer=(*producer, sequence))
    assert values(cluster) == ["0", "1", "2", "3", "4", "5"]
    assert replicas(cluster).startswith("a:")


# M: P-09
def test_a_write_waits_for_a_store_to_upload_to(
    cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "bca":
        cluster.submit(FenceStore(StoreId(name)))

    def until_it_is_back(deadline: object) -> object:
        yield 1
        come_back(cluster, "a")
        yield 2

    monkeypatch.setattr(upload_module, "tries", until_it_is_back)
    write(cluster, "3")
    assert values(cluster) == ["0", "1", "2", "3"]


def test_a_write_that_finds_no_leader_in_time_is_not_there(cluster: Cluster, calls: StoreCalls) -> None:
    cluster.submit(FenceStore(B))
    cluster.submit(FenceStore(C))
    write(cluster, "3")
    cluster.submit(FenceStore(A))
    come_back(cluster, "b")
    tick(cluster)
    with pytest.raises((NoReplicaOnline, NotEnoughReplicas)) as raised:
        write(cluster, "4")
    assert raised.value.landed is Landed.NO
    assert values(cluster) == ["0", "1", "2", "3"]


def test_the_time_of_a_write_counts_once(cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it waited for a store to upload to is gone when it waits for others to be in sync."""
    cluster.alter("t", config={"min.insync.replicas": 2})
    for name in "bca":
        cluster.submit(FenceStore(StoreId(name)))
    now_s = [1000.0]
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now_s[0])

    def until_it_is_back(deadline: object) -> object:
        yield 1
        now_s[0] += 50
        come_back(cluster, "a")
        yield 2

    monkeypatch.setattr(upload_module, "tries", until_it_is_back)
    clock = tick(cluster)
    with pytest.raises(NotEnoughReplicas, match="times in 1 minute"):
        cluster.append("t", pa.table({"value": ["3"]}), timeout_ms=60_000)
    assert 5_000 < clock.at_ms <= 10_000
