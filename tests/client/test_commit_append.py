"""Writes to three stores in memory of which some fail, and commits that are refused at first."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from sparklog.chain import group
from sparklog.chain.command_body import encode_body
from sparklog.chain.committer import new_command_id
from sparklog.chain.follower import Follower
from sparklog.client import cluster as cluster_module
from sparklog.client import unawaited_commits
from sparklog.client import write_rows as write_rows_module
from sparklog.client.cluster import Cluster
from sparklog.client.commit_append import commit_append
from sparklog.client.unawaited_commits import UnawaitedCommits
from sparklog.client.write_plan import Durability, TaskWritten, WritePlan, append_command, plan_write
from sparklog.client.write_rows import write_rows
from sparklog.core.commands import (
    AgentUp,
    DropLagging,
    Election,
    ElectLeaders,
    FenceStore,
    LaggingReplicas,
    NewStore,
    RegisterStore,
    ReportLoss,
)
from sparklog.core.errors import (
    InvalidInput,
    InvalidRequiredAcks,
    Landed,
    NoReplicaOnline,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    RequestTimedOut,
    SparklogError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.core.records import CommandResult
from sparklog.core.replication.append import Acks
from sparklog.core.types import PartitionIndex, StoreId
from sparklog.host import deadline
from sparklog.log import store_lanes
from sparklog.log.incarnation import Incarnation
from sparklog.log.store_failures import FAILED_FOR_MS, StoreFailures
from sparklog.storage.keys import INCARNATION
from tests.client.interfered_stores import EventfulClock, StoreCalls, failing, interfere
from tests.client.test_replicas import TOPIC, cluster, objects, replicas, report, store, submit, values, write
from tests.core.state_contents import contents
from tests.faults.faulty_store import Fault, FaultyStore

__all__ = ["cluster"]

P0 = PartitionIndex(0)
A, B, C = (StoreId(name) for name in "abc")


@pytest.fixture
def calls(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> StoreCalls:
    cluster.connection._stores = None
    return interfere(monkeypatch)


def dead(name: str) -> StoreUnavailable:
    return StoreUnavailable(f"{name} does not answer")


def uploaded(cluster: Cluster, *names: str, durability: Durability = Durability()) -> tuple[WritePlan, TaskWritten]:  # noqa: B008
    """A plan, and what one task wrote by it."""
    connection = cluster.connection
    with connection.follower.current() as state:
        plan = plan_write(
            state,
            connection.places(state),
            new_command_id(),
            topic="t",
            compression=None,
            now_ms=1 << 40,
            durability=durability,
        )
    return plan, write_rows(plan, pa.table({"value": list(names)}).to_batches())


def commit(cluster: Cluster, plan: WritePlan, *written: TaskWritten, timeout_ms: int = 60_000) -> CommandResult:
    command = append_command(plan, written)
    assert command is not None
    return commit_append(cluster.connection, plan, written, command, timeout_ms)


def elect(cluster: Cluster, leader: str) -> None:
    submit(cluster, ElectLeaders((Election(TOPIC, P0, StoreId(leader)),)))


def back(cluster: Cluster, name: str) -> None:
    state = cluster.connection.follower.state
    known = state.stores[StoreId(name)]
    submit(cluster, RegisterStore(NewStore(known.store, known.url, known.incarnation)))


def tick(cluster: Cluster, *events: Callable[[], object]) -> EventfulClock:
    """The commits of this cluster pause by this clock."""
    clock = EventfulClock(*events)
    cluster.connection.committer.clock = clock
    return clock


# ---- stores that fail ---------------------------------------------------------------------------------


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
    (warning,) = [each.message for each in caplog.records if each.levelno == logging.WARNING]
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
    cluster.create_topic("u", assignment=[["a", "b", "c"]])
    connection = cluster.connection
    with connection.follower.current() as state:
        plan = plan_write(
            state, connection.places(state), new_command_id(), topic=None, compression=None, now_ms=1 << 40
        )
    marks = []

    def swapped(call: str, key: str) -> None:
        if key == INCARNATION:
            marks.append(key)
            if len(marks) == 2:
                store(cluster, "b").delete(INCARNATION)

    calls.before["b"] = swapped
    written = write_rows(plan, [pa.record_batch({"value": ["1", "2"], "topic": ["t", "u"]})])
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
    submit(cluster, AgentUp(B, cluster.connection.follower.state.stores[B].registration))
    now_ms = [0]
    monkeypatch.setattr(write_rows_module, "SLOW_HERE", StoreFailures(lambda: now_ms[0]))
    monkeypatch.setattr(store_lanes, "FOLLOWER_WAIT_MS", 1)
    go_on = threading.Event()
    hung: list[str] = []

    def hang(call: str, key: str) -> None:
        if call == "upload":
            hung.append(key)
            go_on.wait(60)

    calls.before["b"] = hang
    try:
        for value in "456":
            write(cluster, value)
        assert len(hung) == 1
        now_ms[0] += FAILED_FOR_MS
        write(cluster, "7")
        assert len(hung) == 2
    finally:
        go_on.set()
    assert replicas(cluster) == "a:ac a8 b3 c8"


def test_a_slow_store_is_written_to_if_there_is_no_other(
    cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, _ = uploaded(cluster, "3")
    plan = msgspec.structs.replace(plan, followers=(A, B, C))
    slow = StoreFailures(lambda: 0)
    monkeypatch.setattr(write_rows_module, "SLOW_HERE", slow)
    for name in "abc":
        slow.note(f"{plan.places.urls[StoreId(name)]} of {plan.places.cluster}", dead(name))
    written = write_rows(plan, pa.table({"value": ["3"]}).to_batches())
    assert [holder.store for holder in written.objects[0].holders] == [A, B, C]


# ---- a leader that changed ----------------------------------------------------------------------------


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
    submit(cluster, ReportLoss(C, known.registration, "another life"))
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
    monkeypatch.setattr(group, "SLICES_INLINE", 0)
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
    submit(cluster, FenceStore(B))
    submit(cluster, FenceStore(C))
    write(cluster, "3")
    submit(cluster, FenceStore(A))
    back(cluster, "b")
    assert replicas(cluster) == "-:+a a4 b3 c3"
    tick(cluster, lambda: None, lambda: back(cluster, "a"))
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
        submit(cluster, FenceStore(StoreId(name)))

    def until_it_is_back(deadline: object) -> object:
        yield 1
        back(cluster, "a")
        yield 2

    monkeypatch.setattr(cluster_module, "tries", until_it_is_back)
    write(cluster, "3")
    assert values(cluster) == ["0", "1", "2", "3"]


def test_the_time_of_a_write_counts_once(cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it waited for a store to upload to is gone when it waits for others to be in sync."""
    cluster.alter("t", config={"min.insync.replicas": 2})
    for name in "bca":
        submit(cluster, FenceStore(StoreId(name)))
    now_s = [1000.0]
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now_s[0])

    def until_it_is_back(deadline: object) -> object:
        yield 1
        now_s[0] += 50
        back(cluster, "a")
        yield 2

    monkeypatch.setattr(cluster_module, "tries", until_it_is_back)
    clock = tick(cluster)
    with pytest.raises(NotEnoughReplicas, match="times in 1 minute"):
        cluster.append("t", pa.table({"value": ["3"]}), timeout_ms=60_000)
    assert 5_000 < clock.at_ms <= 10_000


def test_a_write_that_finds_no_leader_in_time_is_not_there(cluster: Cluster, calls: StoreCalls) -> None:
    submit(cluster, FenceStore(B))
    submit(cluster, FenceStore(C))
    write(cluster, "3")
    submit(cluster, FenceStore(A))
    back(cluster, "b")
    tick(cluster)
    with pytest.raises((NoReplicaOnline, NotEnoughReplicas)) as raised:
        write(cluster, "4")
    assert raised.value.landed is Landed.NO
    assert values(cluster) == ["0", "1", "2", "3"]


# ---- acks and pull ------------------------------------------------------------------------------------


# M: P-03
def test_acks_1_needs_the_leaders_store_alone(cluster: Cluster, calls: StoreCalls) -> None:
    for name in "bc":
        calls.before[name] = failing(dead(name))
    cluster.append("t", pa.table({"value": ["3"]}), acks=1)
    assert replicas(cluster) == "a:abc a4 b3 c3"
    assert values(cluster) == ["0", "1", "2"], "not visible before the others have it"


def test_acks_1_of_several_tasks_has_the_slices_of_each(cluster: Cluster, calls: StoreCalls) -> None:
    plan, first = uploaded(cluster, "3", durability=Durability(Acks.LEADER))
    calls.before["b"] = failing(dead("b"))
    second = write_rows(plan, pa.table({"value": ["4", "5"]}).to_batches())
    commit(cluster, plan, first, second)
    assert replicas(cluster) == "a:abc a6 b4 c6"


# M: P-05
def test_records_with_acks_1_below_min_isr_are_there_and_visible_later(cluster: Cluster, calls: StoreCalls) -> None:
    cluster.alter("t", config={"min.insync.replicas": 2})
    submit(cluster, FenceStore(B))
    submit(cluster, FenceStore(C))
    cluster.append("t", pa.table({"value": ["3"]}), acks=1)
    assert replicas(cluster).endswith("a4 b3 c3")
    assert values(cluster) == ["0", "1", "2"]
    back(cluster, "b")
    for key in objects(cluster, "a"):
        if key not in objects(cluster, "b"):
            store(cluster, "b").put_if_absent(key, bytes(store(cluster, "a").get(key)))
    report(cluster, "b")
    assert values(cluster) == ["0", "1", "2", "3"]


# M: P-03
def test_acks_0_waits_for_nothing_and_hears_of_no_error(
    cluster: Cluster, calls: StoreCalls, caplog: pytest.LogCaptureFixture
) -> None:
    for value in "345":
        assert cluster.append("t", pa.table({"value": [value]}), acks=0).ranges == ()
    write(cluster, "6")
    assert values(cluster) == ["0", "1", "2", "3", "4", "5", "6"], "in the order of the calls"
    topic_id = cluster.describe("t").topic_id
    plan_of = cluster._upload

    def deleted_meanwhile(*given: object) -> object:
        planned = plan_of(*given)  # type: ignore[arg-type]
        cluster.delete_topic("t")
        return planned

    cluster._upload = deleted_meanwhile  # type: ignore[assignment]
    cluster.append("t", pa.table({"value": ["7"]}), acks=0)
    cluster.close()
    assert (
        f"a write with acks=0 failed: UNKNOWN_TOPIC_OR_PARTITION: wanted partition 0, topic id {topic_id}"
        in caplog.text
    )


def test_a_write_never_passes_one_with_acks_0_that_was_begun_before(
    cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit with acks=0 begins only when the next write waits for it, or is done."""
    go_on = threading.Event()
    wait = UnawaitedCommits.wait

    def waited_for(commits: UnawaitedCommits, timeout_s: float | None = None) -> bool:
        go_on.set()
        return wait(commits, timeout_s)

    def late(*given: Any, **more: Any) -> CommandResult:
        if threading.current_thread() is threading.main_thread():
            try:
                return commit_append(*given, **more)
            finally:
                go_on.set()
        assert go_on.wait(60)
        return commit_append(*given, **more)

    monkeypatch.setattr(UnawaitedCommits, "wait", waited_for)
    monkeypatch.setattr(cluster_module, "commit_append", late)
    cluster.append("t", pa.table({"value": ["3"]}), acks=0)
    write(cluster, "4")
    cluster.close()
    assert values(cluster) == ["0", "1", "2", "3", "4"]


def test_a_write_behind_one_with_acks_0_waits_no_longer_than_its_time(
    cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def late(*given: Any, **more: Any) -> CommandResult:
        assert go_on.wait(60)
        return commit_append(*given, **more)

    monkeypatch.setattr(cluster_module, "commit_append", late)
    cluster.append("t", pa.table({"value": ["3"]}), acks=0)
    with pytest.raises(RequestTimedOut, match="earlier writes with acks=0 were not done within 1 ms") as raised:
        cluster.append("t", pa.table({"value": ["4"]}), timeout_ms=1)
    assert raised.value.landed is Landed.NO
    go_on.set()
    cluster.close()
    assert values(cluster) == ["0", "1", "2", "3"]


def test_threads_that_begin_commits_with_acks_0_at_once_share_one_thread_which_ends_with_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two threads could pass each other's commits."""
    both = threading.Barrier(2)
    executors: list[ThreadPoolExecutor] = []

    class Slow(ThreadPoolExecutor):
        def __init__(self, *given: Any, **more: Any) -> None:
            with suppress(threading.BrokenBarrierError):
                both.wait(0.2)  # until the other thread is here, too, which it may not be
            super().__init__(*given, **more)
            executors.append(self)

    monkeypatch.setattr(unawaited_commits, "ThreadPoolExecutor", Slow)
    commits = UnawaitedCommits()
    ran: list[str] = []
    callers = [threading.Thread(target=commits.begin, args=(partial(ran.append, name),)) for name in "ab"]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    commits.close()
    assert (len(executors), sorted(ran)) == (1, ["a", "b"])
    assert not any(thread.name.startswith("sparklog-acks-0") for thread in threading.enumerate())
    commits.begin(partial(ran.append, "c"))
    commits.close()
    assert ran[-1] == "c"


@pytest.mark.parametrize("acks", [2, "some", "", None, True, 1.5])
def test_other_acks_are_refused(cluster: Cluster, acks: object) -> None:  # M: P-03
    with pytest.raises(InvalidRequiredAcks, match=r"acks: wanted all \(or -1\), 1 or 0, found"):
        cluster.append("t", pa.table({"value": ["3"]}), acks=acks)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="replication: wanted push or pull, found 'both'"):
        cluster.append("t", pa.table({"value": ["3"]}), replication="both")
    assert values(cluster) == ["0", "1", "2"]


def pull(cluster: Cluster, timeout_ms: int = 60_000) -> CommandResult:
    return cluster.append("t", pa.table({"value": ["3"]}), replication="pull", timeout_ms=timeout_ms)


# M: P-03
def test_a_pulled_write_goes_to_the_leader_and_waits_until_the_others_have_it(
    cluster: Cluster, calls: StoreCalls
) -> None:
    clock = tick(cluster, lambda: None, lambda: report(cluster, "b"), lambda: report(cluster, "c"))
    pull(cluster)
    assert clock.events == []
    assert replicas(cluster) == "a:abc a4 b4 c4"
    assert {name for name, key in calls.written if key in calls.objects()} == {"a"}


# M: P-04
def test_a_pulled_write_whose_isr_shrinks_says_that_it_is_written(cluster: Cluster, calls: StoreCalls) -> None:
    cluster.alter("t", config={"min.insync.replicas": 2})

    def nobody_follows() -> None:
        state = cluster.connection.follower.state
        value = state.partitions_of(state.topics[TOPIC])[0].replication
        submit(cluster, DropLagging((LaggingReplicas(TOPIC, P0, value.leader_epoch, value.version, (B, C)),)))

    tick(cluster, nobody_follows)
    with pytest.raises(NotEnoughReplicasAfterAppend, match="t-0: records up to offset 4 are written") as raised:
        pull(cluster)
    assert raised.value.landed is Landed.YES
    assert replicas(cluster).endswith("a4 b3 c3")


# M: P-04
def test_a_pulled_write_that_nobody_fetches_in_time_says_that_it_is_written(
    cluster: Cluster, calls: StoreCalls
) -> None:
    clock = tick(cluster)
    with pytest.raises(RequestTimedOut, match="the records are written, and were not on every in-sync") as raised:
        pull(cluster, timeout_ms=10_000)
    assert raised.value.landed is Landed.YES
    assert clock.at_ms >= 10_000
    assert replicas(cluster) == "a:abc a4 b3 c3"


def test_a_pulled_write_that_an_election_forgot_is_written_again(cluster: Cluster, calls: StoreCalls) -> None:
    """Under the same id: with the records the chain forgot that it was applied."""
    tick(cluster, lambda: submit(cluster, FenceStore(A)), lambda: None, lambda: report(cluster, "c"))
    pull(cluster)
    cluster.connection.follower.catch_up()
    assert replicas(cluster).startswith("b:bc")
    assert values(cluster) == ["0", "1", "2", "3"]
    assert len(calls.objects()) == 1
