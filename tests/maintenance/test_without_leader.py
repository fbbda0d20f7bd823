"""Jobs on a partition whose stores are all away: each says so, changes nothing, and works when they are back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from sparklog.core.state_invariants import check
from sparklog.core.types import Offset, OffsetRange
from sparklog.maintenance.job_report import JobReport, WorkOutcome
from sparklog.maintenance.replication_job import run_replication
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.maintenance.verify.verify_job import run_verify
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster
from tests.kit.silent_console import SILENT
from tests.maintenance.keyed_log import DictShuffle
from tests.maintenance.test_roll_below_min_isr import back

JOBS: dict[str, Callable[..., JobReport]] = {
    "roll": lambda url, **given: run_roll(url, everything=True, **given),
    "compaction": lambda url, **given: run_compaction(url, shuffle=DictShuffle(), everything=True, **given),
    "retention": run_retention,
    "replication": run_replication,
    "recovery": run_recovery,
    "verify": run_verify,
    "vacuum": run_vacuum,
}
WHOLE = OffsetRange(Offset(0), Offset(1 << 40))
NOTES = {  # of jobs that go from store to store
    "recovery": "store a is fenced: it is checked when it is back",
    "verify": "store a is fenced: it is not verified",
    "replication": "store a is fenced: nothing is copied there",
}


def run(world: ReplicatedCluster, job: str, **options: Any) -> JobReport:
    return JOBS[job](world.cluster.connection.url, console=SILENT, **options)


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    """Topic "t" has a segment, and records behind it. Then every store is fenced."""
    world = replicated_cluster(**{"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": 0})
    keyed(world, "a", "b", "a")
    assert run(world, "roll").exit_code == 0
    keyed(world, "a", "c")
    for store in "abc":
        world.fence(store)
    yield world
    world.cluster.close()


def keyed(world: ReplicatedCluster, *keys: str) -> None:
    world.cluster.append("t", pa.table({"key": [key.encode() for key in keys], "value": list(keys)}))


# M: R-06
@pytest.mark.parametrize("job", JOBS)
def test_it_is_reported_and_left_for_later(world: ReplicatedCluster, job: str) -> None:
    before = world.state.slices.find(world.key(), WHOLE)
    report = run(world, job)
    assert (report.exit_code, report.failed) == (0, 0), report.to_json()
    if job in ("roll", "compaction"):
        (row,) = report.partitions
        assert (row.outcome, row.place) == (WorkOutcome.POSTPONED, "t-0")
        assert row.messages[0].startswith("NO_REPLICA_ONLINE: ")
    else:
        assert all(row.topic is None for row in report.partitions), report.to_json()
        assert NOTES.get(job, "") in " ".join(report.notes)
    assert list(world.state.slices.find(world.key(), WHOLE)) == list(before)
    check(world.state)
    for store in "abc":
        back(world, store)
    assert run(world, job).exit_code == 0
    found = world.cluster.read("t", partition=0)
    latest = dict(zip(found["key"].to_pylist(), found["offset"].to_pylist(), strict=True))
    assert latest == {b"a": 3, b"b": 1, b"c": 4}
