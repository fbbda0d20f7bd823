"""The replication job: every replica that is behind is filled and in sync, beside agents and other runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import pytest

from sparklog.core.commands import Election, ElectLeaders, ReportReplicas
from sparklog.core.errors import BrokerIdNotRegistered, InconsistentClusterId
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import PartitionIndex, StoreId, TopicId
from sparklog.log.objects import object_copy
from sparklog.maintenance import replication_job
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import JobReport, WorkOutcome
from sparklog.maintenance.replication_job import fetch_objects, run_replication
from sparklog.maintenance.task_runner import LocalTasks
from sparklog.storage.keys import INCARNATION
from tests.agent.agent_world import DrivenAgent, ReplicatedCluster, replicated_cluster
from tests.kit.silent_console import SILENT
from tests.maintenance.silent_store import silent
from tests.maintenance.thread_tasks import ThreadTasks


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    """Two partitions; c lacks two writes to the first, b and c one to the second."""
    world = replicated_cluster(partitions=2)
    world.write("0", "1", partition=0)
    world.write("2", on="ab", partition=0)
    world.write("3", on="ab", partition=0)
    world.write("x", on="a", partition=1)
    yield world
    world.cluster.close()


def run(world: ReplicatedCluster, **options: object) -> JobReport:
    console = SILENT
    return run_replication(world.cluster.connection.url, console=console, **options)  # type: ignore[arg-type]


# M: P-02 L-03
@pytest.mark.parametrize("tasks", [LocalTasks(), ThreadTasks()], ids=["one", "four"])
def test_every_replica_that_is_behind_is_filled(world: ReplicatedCluster, tasks: LocalTasks) -> None:
    report = run(world, tasks=tasks)
    assert (report.exit_code, report.failed) == (0, 0)
    assert (world.replicas(0), world.replicas(1)) == ("a:abc a4 b4 c4", "a:abc a1 b1 c1")
    assert {each.place: (each.planned, each.done) for each in report.partitions} == {
        each.place: (each.planned, each.planned) for each in report.partitions
    }
    assert [each.place for each in report.partitions] == ["t-1 on b", "t-0 on c", "t-1 on c"]
    assert report.done.records == 4
    assert world.objects("c") == world.objects("a")
    assert run(world).partitions == ()


def test_a_dry_run_copies_nothing(world: ReplicatedCluster) -> None:
    before = world.objects("c")
    report = run(world, dry_run=True)
    assert (report.planned.records, report.planned.objects, report.done.objects) == (4, 4, 0)
    assert world.objects("c") == before
    assert world.replicas(0) == "a:ab a4 b4 c2"


def test_only_these_stores_and_topics(world: ReplicatedCluster) -> None:
    world.cluster.create_topic("other", assignment=[["a", "b", "c"]])
    run(world, stores=["b"])
    assert (world.replicas(0), world.replicas(1)) == ("a:ab a4 b4 c2", "a:ab a1 b1 c0")
    assert run(world, topics={"other"}).partitions == ()
    with pytest.raises(BrokerIdNotRegistered):
        run(world, stores=["x"])


def test_a_replica_that_lacks_nothing_joins(world: ReplicatedCluster) -> None:
    run(world)
    world.write("y", on="ab", partition=1, acks=Acks.LEADER)
    world.fence("b")
    world.register("b")
    report = run(world, stores=["b"])
    assert world.replicas(0) == "a:abc a4 b4 c4"
    assert [each.done.records for each in report.partitions] == [0, 0]


def test_an_object_that_nobody_has_stops_only_its_replicas(world: ReplicatedCluster) -> None:
    """What came before it is reported."""
    number = world.objects_of(0)[2]
    upload_id = world.state.objects.get(number).upload_id  # type: ignore[union-attr]
    for name in "ab":
        for key in world.objects(name):
            if upload_id in key:
                world.store(name).delete(key)
    report = run(world)
    assert report.exit_code == 1
    assert [(each.place, each.outcome) for each in report.partitions] == [
        ("t-1 on b", WorkOutcome.DONE),
        ("t-0 on c", WorkOutcome.FAILED),
        ("t-1 on c", WorkOutcome.DONE),
    ]
    assert "KEY_NOT_FOUND" in report.partitions[1].messages[0]
    assert (world.replicas(0), world.replicas(1)) == ("a:ab a4 b4 c3", "a:abc a1 b1 c1")


def test_a_source_that_does_not_answer_is_asked_last(world: ReplicatedCluster) -> None:
    run(world, stores=["b"])
    with silent("a") as asked:
        assert run(world, stores=["c"]).exit_code == 0
    assert world.replicas(0) == "a:abc a4 b4 c4"
    assert len(asked) == 1


def test_a_wiped_store_is_left_to_its_agent(world: ReplicatedCluster) -> None:
    world.wipe("c")
    report = run(world)
    assert [(each.place, each.outcome) for each in report.partitions] == [
        ("t-1 on b", WorkOutcome.DONE),
        ("t-0 on c", WorkOutcome.FAILED),
        ("t-1 on c", WorkOutcome.FAILED),
    ]
    assert "`sparklog agent` reports that" in report.partitions[1].messages[0]
    assert world.objects("c") == []


def test_a_store_that_is_wiped_during_the_copies_is_not_reported(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wiping(payload: bytes) -> bytes:
        done = fetch_objects(payload)
        world.store("c").delete(INCARNATION)
        return done

    monkeypatch.setattr(replication_job, "fetch_objects", wiping)
    assert run(world, stores=["c"]).exit_code == 1
    assert world.replicas(0) == "a:ab a4 b4 c2"


class UnmountedTasks(LocalTasks):
    """Store c is not mounted while a task works, and is again when its work is reported."""

    def __init__(self, world: ReplicatedCluster) -> None:
        self._store = world.store("c")

    def run(self, work: Callable[[bytes], bytes], bodies: Sequence[bytes]) -> list[bytes]:
        mark = bytes(self._store.get(INCARNATION))
        self._store.delete(INCARNATION)
        try:
            return super().run(work, bodies)
        finally:
            self._store.put_if_absent(INCARNATION, mark)


def test_what_was_copied_while_the_store_was_not_mounted_does_not_count(world: ReplicatedCluster) -> None:
    report = run(world, stores=["c"], tasks=UnmountedTasks(world))
    assert {each.outcome for each in report.partitions} == {WorkOutcome.FAILED}
    assert (world.replicas(0), world.replicas(1)) == ("a:ab a4 b4 c2", "a:a a1 b0 c0")


def test_a_report_that_is_overtaken_is_made_again(world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    elected = []

    def electing(payload: bytes) -> bytes:
        if not elected:
            elected.append(world.submit(ElectLeaders((Election(TopicId(1), PartitionIndex(0), StoreId("b")),))))
        return fetch_objects(payload)

    monkeypatch.setattr(replication_job, "fetch_objects", electing)
    assert run(world).exit_code == 0
    assert world.replicas(0) == "b:abc a4 b4 c4"


def test_a_cluster_that_was_restored_elsewhere_is_no_other_change(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def restored(frame: JobFrame, command: ReportReplicas) -> NoReturn:
        raise InconsistentClusterId("cluster 1 was restored as cluster 2")

    monkeypatch.setattr(JobFrame, "commit", restored)
    messages = {message for each in run(world).partitions for message in each.messages}
    assert messages == {"INCONSISTENT_CLUSTER_ID: cluster 1 was restored as cluster 2"}


def test_beside_an_agent_and_another_run_nothing_is_copied_twice(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the job copies, an agent and another run do the same."""
    agent = DrivenAgent(world, "c")
    again = False
    copies: list[str] = []
    copy = object_copy._copy

    def counted(*arguments: object) -> None:
        copies.append(f"{arguments[1]} {arguments[2]}")
        copy(*arguments)  # type: ignore[arg-type]

    def beside(payload: bytes) -> bytes:
        nonlocal again
        if not again:
            again = True
            run(world)
            agent.run()
        return fetch_objects(payload)

    monkeypatch.setattr(object_copy, "_copy", counted)
    monkeypatch.setattr(replication_job, "fetch_objects", beside)
    assert run(world).exit_code == 0
    assert (world.replicas(0), world.replicas(1)) == ("a:abc a4 b4 c4", "a:abc a1 b1 c1")
    assert len(copies) == len(set(copies))
