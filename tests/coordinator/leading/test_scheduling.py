"""The jobs of a coordinator: begun while it leads, from where the last one was, and stopped when it leads no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import pytest

from sparklog.client.cluster import Cluster
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.leading import scheduling as scheduling_module
from sparklog.coordinator.leading.scheduling import Scheduling
from sparklog.coordinator.leading.service import Service
from sparklog.core.commands import ReportJob, ResignCoordination
from sparklog.host.clock import SystemClock
from sparklog.maintenance.job_command import JobEnd
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.job_messages import JOBS, JobFigures, JobsReply, JobStanding
from tests.coordinator.asgi import request
from tests.kit.hand_clock import HandClock
from tests.kit.log import new_cluster

REPORT = {
    "done": {"objects": 1, "records": 2, "bytes": 3},
    "deletion": {"done": {"objects": 4, "records": 0, "bytes": 5}},
}
CHECK_MS = 20  # so often roll and retention are due
HOUR_MS = 3_600_000
Said = list[tuple[str, str]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with new_cluster(config={"log.retention.check.interval.ms": CHECK_MS, "vacuum.interval.ms": HOUR_MS}) as cluster:
        yield cluster


class HeldJobs:
    """Jobs that run until the test ends them. `began` has each run in its order."""

    def __init__(self) -> None:
        self.began: asyncio.Queue[tuple[str, asyncio.Future[JobEnd]]] = asyncio.Queue()
        self.running: list[str] = []
        self.stopped: list[str] = []
        self.may_stop = asyncio.Event()
        self.may_stop.set()

    async def run(self, job: str) -> JobEnd:
        end: asyncio.Future[JobEnd] = asyncio.get_running_loop().create_future()
        assert job not in self.running, "two runs of one job"
        self.running.append(job)
        self.began.put_nowait((job, end))
        try:
            return await end
        except asyncio.CancelledError:
            self.stopped.append(job)
            raise
        finally:
            await self.may_stop.wait()
            self.running.remove(job)

    async def end_next(self, end: JobEnd) -> str:
        """Wait until a run begins, and end it; returns its job."""
        job, ending = await self.began.get()
        ending.set_result(end)
        return job


def ran(cluster: Cluster, job: str, age_ms: int, report: object = REPORT) -> None:
    """A run of the job got into the chain."""
    started_ms = SystemClock().now_ms() - age_ms
    cluster.submit(ReportJob(job, started_ms, started_ms + 10, 0, json.dumps(report)))


def of(schedule: Scheduling, job: str) -> JobStanding:
    return next(standing for standing in schedule.standing() if standing.job == job)


def with_schedule(cluster: Cluster, work: Callable[[Scheduling, HeldJobs, Said], Awaitable[None]]) -> None:
    async def run() -> None:
        said: Said = []
        jobs = HeldJobs()
        schedule = Scheduling(
            cluster.connection.follower, jobs, lambda event, text: said.append((event, text)), SystemClock()
        )
        try:
            await work(schedule, jobs, said)
        finally:
            jobs.may_stop.set()
            await schedule.close()
        assert jobs.running == []

    asyncio.run(run())


# M: N-06 R-06
def test_errors_are_said_and_shown_and_the_other_jobs_go_on(cluster: Cluster) -> None:
    ran(cluster, "vacuum", 0)

    async def work(schedule: Scheduling, jobs: HeldJobs, said: Said) -> None:
        ends = {
            "roll": JobEnd(error="no disk", broke_off=True),
            "compaction": JobEnd(error="1 parts failed"),
            "retention": JobEnd(),
        }
        first: list[str] = []
        again: list[tuple[str, asyncio.Future[JobEnd]]] = []
        schedule.begin()
        while ends or not again:  # roll may come again before the others come
            job, end = await jobs.began.get()
            if job in ends:
                first.append(job)
                end.set_result(ends.pop(job))
            else:
                again.append((job, end))
        assert first == ["roll", "compaction", "retention"]
        job, end = again[0]
        while len(said) < 2:
            await asyncio.sleep(0)
        assert said == [("error", "roll: no disk"), ("error", "compaction: 1 parts failed")]
        running = of(schedule, job)
        assert (running.next_due_ms, running.running_since_ms is None) == (None, False)
        assert of(schedule, "roll").error == "no disk"
        assert of(schedule, "compaction").error == "1 parts failed"
        assert (of(schedule, "roll").broken_runs, of(schedule, "compaction").broken_runs) == (1, 0)
        end.set_result(JobEnd())
        while len(said) < 3:
            await asyncio.sleep(0)
        assert said[2:] == [("job", f"{job}: done")], "that it works again is said"
        assert of(schedule, job).error is None

    with_schedule(cluster, work)


# M: N-06
def test_a_new_leader_goes_on_from_the_last_runs_in_the_chain(cluster: Cluster) -> None:
    ran(cluster, "vacuum", HOUR_MS // 2)
    ran(cluster, "replication", 0, report={"of": "another version"})
    standing_clock = HandClock(SystemClock().now_ms())

    async def run() -> None:
        schedule = Scheduling(cluster.connection.follower, HeldJobs(), lambda event, text: None, standing_clock)
        schedule.begin()
        names = [standing.job for standing in schedule.standing()]
        assert names == ["roll", "compaction", "retention", "replication", "vacuum"]
        vacuum, roll, foreign = of(schedule, "vacuum"), of(schedule, "roll"), of(schedule, "replication")
        assert (vacuum.interval_ms, roll.interval_ms, foreign.interval_ms) == (HOUR_MS, CHECK_MS, None)
        assert vacuum.last is not None
        assert vacuum.last.figures == JobFigures(1, 2, 3, 4, 5)
        assert vacuum.next_due_ms == vacuum.last.started_ms + HOUR_MS
        assert roll.next_due_ms is not None
        assert CHECK_MS // 2 <= roll.next_due_ms - standing_clock.now_ms() <= CHECK_MS, (
            "it has more urgent things to do"
        )
        assert foreign.last is not None
        assert foreign.last.figures is None
        await schedule.close()

    asyncio.run(run())


def test_jobs_of_a_former_term_have_stopped_before_those_of_the_next_begin(cluster: Cluster) -> None:
    async def work(schedule: Scheduling, jobs: HeldJobs, said: Said) -> None:
        schedule.begin()
        assert (await jobs.began.get())[0] == "roll"
        jobs.may_stop.clear()
        schedule.end()
        former = list(jobs.running)  # the others began with it if the loop was late
        while not jobs.began.empty():
            jobs.began.get_nowait()
        assert all(standing.interval_ms is None for standing in schedule.standing())
        for _ in range(3):  # leads, and at once leads no more
            schedule.begin()
            schedule.end()
        schedule.begin()
        await asyncio.sleep(3 * CHECK_MS / 1000)  # time enough to do it wrongly
        assert jobs.running == former
        assert jobs.began.empty()
        jobs.may_stop.set()
        assert (await jobs.began.get())[0] == "roll"

    with_schedule(cluster, work)


def test_a_bug_of_the_scheduler_itself_is_said(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(scheduling_module.Scheduler, "run", broken)

    async def work(schedule: Scheduling, jobs: HeldJobs, said: Said) -> None:
        schedule.begin()
        while not said:
            await asyncio.sleep(0)
        assert said == [("error", "the scheduler failed, no job runs until another process leads: ValueError('a bug')")]

    with_schedule(cluster, work)


def test_without_a_runner_the_chain_s_last_runs_are_all_that_is_known(cluster: Cluster) -> None:
    ran(cluster, "roll", 1_000)
    cluster.connection.follower.catch_up()
    schedule = Scheduling(cluster.connection.follower, None, lambda event, text: None, SystemClock())
    schedule.begin()
    (roll,) = schedule.standing()
    assert (roll.job, roll.interval_ms, roll.next_due_ms) == ("roll", None, None)
    schedule.end()


# M: N-06
def test_the_one_that_leads_runs_jobs_and_says_so_and_one_that_leads_no_more_stops_them(cluster: Cluster) -> None:
    async def run() -> None:
        jobs = HeldJobs()
        said: asyncio.Queue[str] = asyncio.Queue()
        service = Service(
            cluster.connection.follower,
            cluster.connection.url,
            "http://me:7400",
            session_ms=300,
            queued_max=10,
            say=lambda event, text: said.put_nowait(event),
            jobs=jobs,
        )
        app = app_of(service)
        refused = await request(app, "GET", JOBS)
        assert (refused.status, msgspec.msgpack.decode(refused.body, type=ErrorReply).code) == (421, "NOT_CONTROLLER")
        running = asyncio.create_task(service.run())
        assert (await jobs.began.get())[0] == "roll"
        answer = await request(app, "GET", JOBS, headers={"accept": "application/json"})
        reply = msgspec.json.decode(answer.body, type=JobsReply)
        running_now = {job.job for job in reply.jobs if job.running_since_ms is not None}
        assert {"roll"} <= running_now <= set(jobs.running)  # all of them, if the loop was late
        committer = cluster.connection.committer
        resign = committer.begin(ResignCoordination(service.follower.state.coordinator.epoch))
        await asyncio.to_thread(committer.commit_here, resign)
        while await said.get() != "stands-by":
            pass
        while await said.get() != "leads":  # again: nobody else wants to
            pass
        assert "roll" in jobs.stopped
        while (await jobs.began.get())[0] != "roll":
            pass
        service.stop()
        await running
        assert jobs.running == []

    asyncio.run(run())
