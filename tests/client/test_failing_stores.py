"""Writes to three stores in memory of which some fail."""

from __future__ import annotations

import logging
import threading

import msgspec
import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.plans import task_upload
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.core.commands import AgentUp
from sparklog.core.errors import (
    Landed,
    NotEnoughReplicas,
    SparklogError,
    StoreFull,
    StoreReadOnly,
)
from sparklog.core.types import StoreId
from sparklog.host.recent_failures import FAILED_FOR_MS, RecentFailures
from sparklog.log.incarnation import Incarnation
from sparklog.log.write import store_lanes
from sparklog.storage.keys import INCARNATION
from tests.client.interfered_stores import StoreCalls, dead, failing, tick
from tests.client.replicated_cluster import A, B, C, objects, planned_write, replicas, store, uploaded, write
from tests.kit.log import values


# M: P-03
@pytest.mark.parametrize(
    "error",
    [dead("b"), StoreFull("no space left"), StoreReadOnly("mounted read-only")],
    ids=lambda each: each.code,
)
def test_a_write_goes_on_without_a_store_that_fails(
    cluster: Cluster, calls: StoreCalls, error: SparklogError, caplog: pytest.LogCaptureFixture
) -> None:
    calls.before["b"] = failing(error)
    write(cluster, "3")
    assert replicas(cluster) == "a:ac a4 b3 c4"
    assert values(cluster) == ["0", "1", "2", "3"]
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warning == (
        f"store b did not take the write: {error}; it leaves the ISR of 1 partition until it has caught up"
    )


# M: P-07
@pytest.mark.parametrize("life", [None, "another"])
def test_a_store_in_another_life_leaves_the_isr(cluster: Cluster, life: str | None) -> None:
    store(cluster, "b").delete(INCARNATION)
    if life is not None:
        store(cluster, "b").put_if_absent(INCARNATION, msgspec.json.encode(Incarnation(life, "chain")))
    write(cluster, "3")
    assert replicas(cluster) == "a:ac a4 b3 c4"


def test_a_store_that_is_swapped_between_two_objects_holds_neither(cluster: Cluster, calls: StoreCalls) -> None:
    """It was in its life when the first one was uploaded."""
    cluster.create_topic("u", assignment=["abc"])
    plan = planned_write(cluster, None)
    marks = []

    def swapped(call: str, key: str) -> None:
        if key == INCARNATION:
            marks.append(key)
            if len(marks) == 2:
                store(cluster, "b").delete(INCARNATION)

    calls.before["b"] = swapped
    written = upload_task_rows(plan, [pa.record_batch({"value": ["1", "2"], "topic": ["t", "u"]})])
    assert [[each.store for each in named.holders] for named in written.objects] == [[A, C], [A, C]]
    assert "found none: the store was wiped" in written.not_taken[B]


# M: P-08
def test_another_leader_takes_over_in_the_entry_of_the_write_if_the_leaders_store_is_dead(
    cluster: Cluster, calls: StoreCalls
) -> None:
    calls.before["a"] = failing(dead("a"))
    n = cluster.connection.follower.state.n
    result = write(cluster, "3")
    assert replicas(cluster) == "b:bc a3 b4 c4"
    assert result.n == n + 1
    assert values(cluster) == ["0", "1", "2", "3"]


# M: P-04
def test_too_few_stores_are_tried_again_until_the_time_is_over_and_nothing_is_written(
    cluster: Cluster, calls: StoreCalls
) -> None:
    cluster.alter("t", config={"min.insync.replicas": 2})
    for name in "bc":
        calls.before[name] = failing(dead(name))
    clock = tick(cluster)
    with pytest.raises(NotEnoughReplicas) as raised:
        cluster.append("t", pa.table({"value": ["3"]}), timeout_ms=60_000)
    assert raised.value.landed is Landed.NO
    assert raised.value.message.startswith("t-0: a write with acks=all needs 2 stores in sync (min.insync.replicas)")
    for name in "bc":
        assert (
            f"store {name} did not take the write: KAFKA_STORAGE_ERROR: {name} does not answer" in raised.value.message
        )
    assert "times in 1 minute" in raised.value.message
    assert clock.at_ms > 50_000
    assert (replicas(cluster), values(cluster)) == ("a:abc a3 b3 c3", ["0", "1", "2"])
    assert len(calls.objects()) == 1


# M: P-04 P-09
def test_a_store_that_is_back_gets_the_objects_before_the_next_try(cluster: Cluster, calls: StoreCalls) -> None:
    cluster.alter("t", config={"min.insync.replicas": 2})
    for name in "bc":
        calls.before[name] = failing(dead(name))
    tick(cluster, lambda: None, lambda: calls.before.pop("c"))
    write(cluster, "3")
    assert replicas(cluster) == "a:ac a4 b3 c4"
    assert len(calls.objects()) == 1
    assert objects(cluster, "c") == objects(cluster, "a")


def test_a_follower_that_hangs_holds_up_one_write_and_the_next_after_a_while(
    cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write that it hangs in leaves a thread behind, with the bytes."""
    calls.before["b"] = failing(dead("b"))
    write(cluster, "3")
    assert replicas(cluster) == "a:ac a4 b3 c4"
    cluster.submit(AgentUp(B, cluster.connection.follower.state.stores[B].registration))
    now_ms = [0]
    monkeypatch.setattr(task_upload, "SLOW_HERE", RecentFailures(lambda: now_ms[0]))
    monkeypatch.setattr(store_lanes, "CATCHING_UP_WAIT_MS", 1)
    hangs, go_on = threading.Event(), threading.Event()
    hung: list[str] = []

    def hang(call: str, key: str) -> None:
        if call == "upload":
            hung.append(key)
            hangs.set()
            go_on.wait(60)

    def come_after_it(call: str, key: str) -> None:
        if call == "upload":
            hangs.wait(60)

    calls.before.update(a=come_after_it, b=hang, c=come_after_it)
    try:
        for value in "456":
            write(cluster, value)
        assert len(hung) == 1
        now_ms[0] += FAILED_FOR_MS
        hangs.clear()
        write(cluster, "7")
        assert len(hung) == 2
    finally:
        go_on.set()
    assert replicas(cluster) == "a:ac a8 b3 c8"


def test_a_slow_store_is_written_to_if_there_is_no_other(
    cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, _ = uploaded(cluster, "3")
    plan = msgspec.structs.replace(plan, catching_up=(A, B, C))
    slow = RecentFailures(lambda: 0)
    monkeypatch.setattr(task_upload, "SLOW_HERE", slow)
    for name in "abc":
        slow.note(f"{plan.addresses.urls[StoreId(name)]} of {plan.addresses.cluster}")
    written = upload_task_rows(plan, pa.table({"value": ["3"]}).to_batches())
    assert [holder.store for holder in written.objects[0].holders] == [A, B, C]
