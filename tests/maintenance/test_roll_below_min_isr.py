"""A roll below min.insync.replicas: a partition is left for later, so that no replica loses what it alone may have."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparklog.core.commands import ReplicaReport, ReportLoss, ReportReplicas
from sparklog.core.errors import SparklogError
from sparklog.core.replication import rewrites
from sparklog.core.types import StoreId
from sparklog.log.write.segments_writer import Rewritten
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome
from sparklog.maintenance.rewrite import roll_job, swapping
from sparklog.maintenance.rewrite.roll_job import run_roll
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster

WAITS = (
    "NOT_ENOUGH_REPLICAS: a rewrite needs to be on 2 stores in sync (min.insync.replicas) or on all that have every "
    "committed record: it is on ['b'] in sync, and not on ['a', 'c']"
)


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    """Topic "t" wants two stores in sync, topic "u" one; both have two records on a, b and c. Then a is fenced."""
    world = replicated_cluster(**{"min.insync.replicas": 2})
    world.cluster.create_topic("u", assignment=["abc"], config={"min.insync.replicas": 1})
    for value in "01":
        world.write(value)
        world.cluster.append("u", pa.table({"value": [value]}))
    world.fence("a")
    assert world.replicas() == "b:bc a2 b2 c2"
    yield world
    world.cluster.close()


def rolled(world: ReplicatedCluster, said: io.StringIO | None = None, **options: object) -> JobReport:
    console = said or io.StringIO()
    return run_roll(world.cluster.connection.url, everything=True, console=console, **options)  # type: ignore[arg-type]


def row(report: JobReport, topic: str) -> PartitionResult:
    (found,) = [each for each in report.partitions if each.topic == topic]
    return found


def segments(world: ReplicatedCluster, topic_id: int) -> list[str]:
    return [key for name in "abc" for key in world.objects(name) if key.startswith(f"topics/{topic_id}-")]


def back(world: ReplicatedCluster, name: str) -> None:
    """A fenced store is registered again, and its agent reports that it has everything."""
    world.register(name)
    value, key = world.value(), world.key()
    said = ReplicaReport(key.topic_id, key.partition, value.leader_epoch, value.version, value.log_end(StoreId(name)))
    world.submit(ReportReplicas(StoreId(name), world.state.stores[StoreId(name)].registration, (said,)))


def is_lost(world: ReplicatedCluster, name: str) -> None:
    """The disk of a store breaks; somebody puts an empty one there, and its agent reports that."""
    store = world.state.stores[StoreId(name)]
    world.wipe(name)
    world.submit(ReportLoss(store.store, store.registration, uuid.uuid4().hex, ()))


# M: R-06
def test_it_is_left_for_later_before_anything_is_uploaded_and_other_partitions_are_rolled(
    world: ReplicatedCluster,
) -> None:
    world.fence("c")
    assert world.replicas() == "b:b+c a2 b2 c2"
    said = io.StringIO()
    report = rolled(world, said)
    assert (report.exit_code, report.failed) == (0, 0)
    waiting = row(report, "t")
    assert (waiting.outcome, waiting.messages, waiting.planned, waiting.done) == (
        WorkOutcome.POSTPONED,
        (WAITS,),
        Work(),
        Work(),
    )
    assert waiting.reason == f"left for later: {WAITS.removeprefix('NOT_ENOUGH_REPLICAS: ')}"
    assert f"t-0: postponed: {WAITS}" in said.getvalue()
    assert (row(report, "u").outcome, row(report, "u").done.records) == (WorkOutcome.DONE, 2)
    assert (len(segments(world, 1)), len(segments(world, 2))) == (0, 2), "on b: a segment of u and its index"
    assert '"outcome": "postponed"' in report.to_json()


def test_a_dry_run_says_so_too(world: ReplicatedCluster) -> None:
    world.fence("c")
    said = io.StringIO()
    report = rolled(world, said, dry_run=True)
    assert row(report, "t").outcome is WorkOutcome.POSTPONED
    assert report.planned.records == 2, "those of u"
    assert "left for later" in said.getvalue().replace("\n", " ")


def test_a_partition_without_a_leader_is_left_for_later(world: ReplicatedCluster) -> None:
    for each in "bc":
        world.fence(each)
    report = rolled(world)
    assert report.exit_code == 0
    assert {each.topic: each.outcome for each in report.partitions} == dict.fromkeys("tu", WorkOutcome.POSTPONED)
    assert row(report, "t").messages[0].startswith("NO_REPLICA_ONLINE: the partition has no leader")


def test_it_is_rolled_once_enough_are_in_sync(world: ReplicatedCluster) -> None:
    world.fence("c")
    rolled(world)
    back(world, "c")
    assert world.replicas() == "b:bc a2 b2 c2"
    report = rolled(world)
    assert (row(report, "t").outcome, world.replicas()) == (WorkOutcome.DONE, "b:bc a0 b2 c2")
    assert world.values() == ["0", "1"]


@pytest.mark.parametrize("after_upload", [False, True], ids=["before the upload", "before the swap"])
def test_a_store_that_goes_meanwhile_is_no_failure(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch, after_upload: bool
) -> None:
    whole, uploads = roll_job.rewrite, []

    def rewrite(*args: object) -> Rewritten:
        uploads.append(args)
        rewritten = whole(*args)  # type: ignore[arg-type]
        world.fence("c")
        return rewritten

    def order(self: roll_job.RollJob, *args: object) -> roll_job.RollOrder:
        world.fence("c")
        return ordered(self, *args)  # type: ignore[arg-type]

    ordered = roll_job.RollJob._order
    if after_upload:
        monkeypatch.setattr(roll_job, "rewrite", rewrite)
    else:
        monkeypatch.setattr(roll_job.RollJob, "_order", order)
    report = rolled(world, topics=["t"])
    assert (report.exit_code, row(report, "t").outcome, row(report, "t").messages) == (
        0,
        WorkOutcome.POSTPONED,
        (WAITS,),
    )
    assert len(uploads) == after_upload
    assert world.values() == ["0", "1"]


# M: P-06
@pytest.mark.parametrize("checked", [True, False], ids=["", "without the check"])
def test_records_outlive_the_only_store_in_sync(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    """c was away during the roll and has everything. Then b is lost, the only store that the roll could reach."""
    if not checked:
        monkeypatch.setattr(rewrites, "check_swap", lambda *args: None)
        monkeypatch.setattr(swapping, "check_swap", lambda *args: None)
    world.fence("c")
    rolled(world, topics=["t"])
    is_lost(world, "b")
    back(world, "c")
    if checked:
        assert world.values() == ["0", "1"]
    else:
        with pytest.raises(SparklogError, match="DATA_LOSS"):
            world.values()
