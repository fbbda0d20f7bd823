"""Roll, retention and vacuum die, or meet others, at every change of the store: nothing is lost or left behind."""

from __future__ import annotations

import copy
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from unittest.mock import patch

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet

import sparklog
from sparklog.chain.commit.committer import new_command_id
from sparklog.client.bootstrap import init_cluster
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import append_command, plan_write
from sparklog.core.commands import Submission
from sparklog.core.errors import WriteExpired
from sparklog.maintenance import job_frame
from tests.faults.crash_places import Place, objects_of
from tests.faults.deadly_calls import dying_at, every_change
from tests.faults.interruptions import NEVER, killed_at, meet_at, stride
from tests.faults.killed_maintenance import run
from tests.faults.killed_runs import KilledRuns
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog

JOBS = ("roll", "retention", "vacuum")
OLD_MS = 8 * DAY_MS  # how far the jobs' --now is ahead of the clock, so that FLOOR passes what was begun

FAR_MS = 2**41  # temporaries have the machine's or the server's own time: this is later


def fill(log: MaintainedLog) -> None:
    """Fill a topic so that each job has work: slices to roll, old segments, retired objects, orphans."""
    log.topic("t", 2, retention_ms=20 * DAY_MS, file_delete_delay_ms=0, rewrite_delete_delay_ms=0, segment_bytes=1_500)
    for partition, count in ((0, 8), (1, 3), (0, 2)):
        log.append("t", partition, count, timestamp_ms=log.clock.at_ms - 15 * DAY_MS)
    log.roll()
    upload(log)
    for partition, count in ((0, 5), (1, 20), (0, 1)):
        log.append("t", partition, count)


def upload(log: MaintainedLog) -> Callable[[], None]:
    """Upload a write. The function returned commits it, and notes it in the model."""
    state = log.cluster.connection.newest_state()
    addresses = log.cluster.connection.addresses(state)
    plan = plan_write(state, addresses, new_command_id(), topic="t", compression=None, now_ms=log.clock.at_ms)
    values = [b"slow", b"writer"]
    rows = pa.table({"value": values, "partition": pa.array([0, 0], pa.int32())})
    command = append_command(plan, [upload_task_rows(plan, rows.to_batches())])
    assert command is not None

    def commit() -> None:
        log.cluster.connection.committer.submit(Submission(plan.command_id, plan.n0, command))
        log.model["t", 0] += values

    return commit


def clean(log: MaintainedLog) -> None:
    """Let time pass and run all jobs: then the store holds exactly what the chain names."""
    log.clock.at_ms += 8 * DAY_MS
    log.append("t", 1, 1)
    for report in (log.roll(), log.retention(), log.vacuum(now_ms=log.clock.at_ms + OLD_MS)):
        assert report.exit_code == 0, report.to_json()
    log.check()
    assert log.retired() == 0
    assert log.stored() == log.named()


# ---- killed -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killer(place: Place) -> Iterator[KilledRuns]:
    """Runs jobs in processes of their own, whose environment names the place."""
    with KilledRuns("tests.faults.killed_maintenance") as runs:
        yield runs


def died_at(place: Place, request: pytest.FixtureRequest, job: str, log: MaintainedLog, step: int) -> tuple[bool, int]:
    """(Whether the job died at the step, how many changes it came to.) In memory it runs in this process."""
    if place.name != "memory":
        return request.getfixturevalue("killer")(job, log.clock.at_ms, log.clock.at_ms + OLD_MS, step, log.url)  # type: ignore[no-any-return]
    with dying_at(log.url, every_change(log.url), "before", step) as death:
        assert run(job, log.clock.at_ms, log.clock.at_ms + OLD_MS, log.url) == 0
    return death.came, death.calls


@pytest.fixture
def steps_of(place: Place, request: pytest.FixtureRequest) -> Callable[[int], Sequence[int]]:
    """At which of these changes a job dies: at all of them, or at a sample if a process must be killed."""

    def chosen(changes: int) -> Sequence[int]:
        if place.name == "memory":
            return range(changes)
        return killed_at(changes, request, kills=2 if place.name == "disk" else 1)

    return chosen


REAL_KILLS = {("disk", "vacuum"), ("s3", "roll"), ("hdfs", "retention")}


def case(place: str, job: str) -> ParameterSet:
    """In memory every job; elsewhere another one on each kind of store, or all of them with --campaign."""
    marks = [pytest.mark.slow] if place in ("s3", "hdfs") else []
    if place != "memory" and (place, job) not in REAL_KILLS:
        marks.append(pytest.mark.campaign)
    return pytest.param(place, job, marks=marks)


@pytest.mark.parametrize(
    ("place", "job"),
    [case(place, job) for place in ("memory", "disk", "s3", "hdfs") for job in JOBS],
    indirect=["place"],
)
def test_a_job_killed_anywhere_and_run_again_loses_nothing_and_leaves_nothing(  # M: S-09 R-03 R-04 F-09 C-05 (kills)
    job: str,
    place: Place,
    steps_of: Callable[[int], Sequence[int]],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """In memory the job dies at every change of the store; elsewhere its process is killed at a few of them."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # a kill loses no pages: waiting for the disk proves nothing
    url = place.new_url()
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        filled = MaintainedLog(cluster)
        fill(filled)
        cluster.connection.committer.snapshots.write()
        objects = objects_of(url)
        was_killed, changes = died_at(place, request, job, filled, NEVER)
    assert not was_killed
    assert changes >= {"roll": 20, "retention": 10, "vacuum": 5}[job]
    left = 0
    for step in steps_of(changes):
        url = place.copied(objects)
        with sparklog.connect(url) as cluster:
            log = MaintainedLog(cluster, copy.copy(filled.clock), copy.deepcopy(filled.model))
            plan = log.planned("t", 0)
            assert died_at(place, request, job, log, step) == (True, step)
            left += len(place.unpublished(url))
            log.check()
            assert log.live() <= log.stored()
            found = log.read_plan(plan, fail_on_data_loss=False)
            assert found == log.model["t", 0][len(log.model["t", 0]) - len(found) :]
            assert job == "retention" or len(found) == len(log.model["t", 0])
            log.append("t", 0, 2)
            assert run(job, log.clock.at_ms, log.clock.at_ms + OLD_MS, url) == 0
            log.check()
            clean(log)
            assert far_vacuum(log) == 0
            assert not place.unpublished(url)
    assert left or job != "roll" or place.name != "memory", "no roll died in an upload"


def far_vacuum(log: MaintainedLog) -> int:
    """Vacuum at FAR_MS, a time that the store's clock would refuse. Returns the exit code."""
    log.clock.at_ms = FAR_MS
    with patch.object(job_frame, "check_clock_beside_store"):
        return log.vacuum().exit_code


# ---- met by others ------------------------------------------------------------------------------------


def meeting(job: str, other: str) -> ParameterSet:
    """Every job meets writers and another job, or all jobs with --campaign."""
    usual = (job, other) in MEETINGS or other == "writers"
    return pytest.param(job, other, marks=() if usual else pytest.mark.campaign)


MEETINGS = {("roll", "retention"), ("retention", "vacuum"), ("vacuum", "roll")}
FIRST = {job: at for at, job in enumerate(JOBS)}
EVERY = 3


@pytest.mark.parametrize(("job", "other"), [meeting(job, other) for other in ("writers", *JOBS) for job in JOBS])
def test_a_job_that_meets_writers_readers_and_other_jobs_anywhere_loses_nothing(  # M: S-09 R-04 C-05
    job: str, other: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """At every third change, from another one on for each job; with --campaign at all of them."""
    every = stride(request, EVERY)
    step, came_to_it = FIRST[job] % every, True
    while came_to_it:
        url = f"memory://{uuid.uuid4().hex}"
        init_cluster(url)
        with sparklog.connect(url) as cluster, monkeypatch.context() as patch:
            log = MaintainedLog(cluster)
            fill(log)
            begun = upload(log)
            plan = log.planned("t", 0)
            late: list[Callable[[], None]] = []

            def others(log: MaintainedLog = log, late: list[Callable[[], None]] = late) -> None:
                if other == "writers":
                    log.append("t", 0, 1)
                    late.append(upload(log))
                    log.check()
                else:
                    assert run(other, log.clock.at_ms, log.clock.at_ms + OLD_MS, log.url) == 0

            happened = meet_at(patch, step, others)
            status = run(job, log.clock.at_ms, log.clock.at_ms + OLD_MS, url)
            assert status == 0 or (job == "roll" and other != "writers"), "FLOOR may pass a roll, which is then refused"
            came_to_it = happened()
            patch.undo()
            log.check()
            found = log.read_plan(plan, fail_on_data_loss=False)
            assert found == log.model["t", 0][: plan.end][plan.end - len(found) :]
            for commit in (begun, *late):
                try:
                    commit()
                except WriteExpired:
                    continue  # FLOOR has passed it: its upload is an orphan
            log.check()
            clean(log)
        step += every
