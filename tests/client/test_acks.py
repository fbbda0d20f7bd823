"""Writes with each kind of acks to three stores in memory, pushed to all of them or pulled from the leader's."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.commits import commit_write as append_module
from sparklog.client.commits import unawaited
from sparklog.client.commits.commit_write import commit_append
from sparklog.client.commits.unawaited import UnawaitedCommits
from sparklog.client.plans.plan_and_upload import plan_and_upload
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import Durability
from sparklog.core.commands import (
    DropLagging,
    FenceStore,
    LaggingReplicas,
)
from sparklog.core.errors import (
    InvalidInput,
    InvalidRequiredAcks,
    Landed,
    NotEnoughReplicasAfterAppend,
    RequestTimedOut,
)
from sparklog.core.records import CommandResult
from sparklog.core.replication.replica_append import Acks
from sparklog.host.deadline import Deadline
from tests.client.interfered_stores import StoreCalls, dead, failing, tick
from tests.client.replicated_cluster import (
    P0,
    TOPIC,
    A,
    B,
    C,
    come_back,
    commit,
    copy_all,
    replicas,
    replication,
    report,
    uploaded,
    write,
)
from tests.kit.log import values


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
    second = upload_task_rows(plan, pa.table({"value": ["4", "5"]}).to_batches())
    commit(cluster, plan, first, second)
    assert replicas(cluster) == "a:abc a6 b4 c6"


# M: P-05
def test_records_with_acks_1_below_min_isr_are_there_and_visible_later(cluster: Cluster, calls: StoreCalls) -> None:
    cluster.alter("t", config={"min.insync.replicas": 2})
    cluster.submit(FenceStore(B))
    cluster.submit(FenceStore(C))
    cluster.append("t", pa.table({"value": ["3"]}), acks=1)
    assert replicas(cluster).endswith("a4 b3 c3")
    assert values(cluster) == ["0", "1", "2"]
    come_back(cluster, "b")
    copy_all(cluster, "a", "b")
    report(cluster, "b")
    assert values(cluster) == ["0", "1", "2", "3"]


# M: P-03
def test_acks_0_waits_for_nothing_and_hears_of_no_error(
    cluster: Cluster, calls: StoreCalls, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in "345":
        assert cluster.append("t", pa.table({"value": [value]}), acks=0).ranges == ()
    write(cluster, "6")
    assert values(cluster) == ["0", "1", "2", "3", "4", "5", "6"], "in the order of the calls"
    topic_id = cluster.describe("t").topic_id

    def deleted_meanwhile(*given: object, **more: object) -> object:
        planned = plan_and_upload(*given, **more)  # type: ignore[arg-type]
        cluster.delete_topic("t")
        return planned

    monkeypatch.setattr("sparklog.client.plans.plan_and_upload.plan_and_upload", deleted_meanwhile)
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
    monkeypatch.setattr(append_module, "commit_append", late)
    cluster.append("t", pa.table({"value": ["3"]}), acks=0)
    write(cluster, "4")
    cluster.close()
    assert values(cluster) == ["0", "1", "2", "3", "4"]


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
        value = replication(cluster)
        cluster.submit(DropLagging((LaggingReplicas(TOPIC, P0, value.leader_epoch, value.version, (B, C)),)))

    tick(cluster, nobody_follows)
    with pytest.raises(NotEnoughReplicasAfterAppend, match="t-0: records up to offset 4 are written") as raised:
        pull(cluster)
    assert raised.value.landed is Landed.YES
    assert replicas(cluster).endswith("a4 b3 c3")


# M: P-04
def test_a_pulled_write_that_nobody_fetches_in_time_says_that_it_is_written(
    cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deadline, "spent_ms", lambda deadline: 0)  # the upload takes no time: only pauses do
    clock = tick(cluster)
    with pytest.raises(RequestTimedOut, match="the records are written, and were not on every in-sync") as raised:
        pull(cluster, timeout_ms=10_000)
    assert raised.value.landed is Landed.YES
    assert clock.at_ms >= 10_000
    assert replicas(cluster) == "a:abc a4 b3 c3"


def test_a_pulled_write_that_an_election_forgot_is_written_again(cluster: Cluster, calls: StoreCalls) -> None:
    """Under the same id: with the records the chain forgot that it was applied."""
    tick(cluster, lambda: cluster.submit(FenceStore(A)), lambda: None, lambda: report(cluster, "c"))
    pull(cluster)
    cluster.connection.follower.catch_up()
    assert replicas(cluster).startswith("b:bc")
    assert values(cluster) == ["0", "1", "2", "3"]
    assert len(calls.objects()) == 1


def test_a_write_behind_one_with_acks_0_waits_no_longer_than_its_time(
    cluster: Cluster, calls: StoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def late(*given: Any, **more: Any) -> CommandResult:
        assert go_on.wait(60)
        return commit_append(*given, **more)

    monkeypatch.setattr(append_module, "commit_append", late)
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

    monkeypatch.setattr(unawaited, "ThreadPoolExecutor", Slow)
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
