"""The scheduler's shell: jobs that fail, hang or raise stop no others, and what runs is stopped with it."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from sparklog.core.maintenance.schedule import Schedule, Task
from sparklog.host.clock import SystemClock
from sparklog.maintenance.job_command import JobEnd
from sparklog.maintenance.job_scheduler import JobRunner, Scheduler, run_once
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog, maintained

SOON_MS = 5
FAILED = JobEnd(error="1 parts failed")


class ScriptedJobs:
    """Runs jobs that only return, raise, or wait until they are cancelled. Counts those that run at the same time."""

    def __init__(self, ends: Mapping[str, JobEnd | Exception | None]) -> None:
        self.ends = ends
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.stopped: list[str] = []

    async def run(self, job: str) -> JobEnd:
        self.running[job] += 1
        self.most |= self.running
        try:
            end = self.ends[job]
            await (asyncio.sleep(0) if end is not None else asyncio.Event().wait())
            assert end is not None
            if isinstance(end, Exception):
                raise end
            return end
        except asyncio.CancelledError:
            self.stopped.append(job)
            raise
        finally:
            self.running[job] -= 1


def until(is_so: Callable[[Counter[str]], bool], runner: JobRunner, *jobs: str) -> list[tuple[str, JobEnd]]:
    """Schedule the jobs until so many of each have ended; returns the ends."""
    seen: list[tuple[str, JobEnd]] = []

    async def run() -> None:
        enough = asyncio.Event()

        def ended(job: str, end: JobEnd) -> None:
            seen.append((job, end))
            if is_so(Counter(job for job, _ in seen)):
                enough.set()

        clock = SystemClock()
        tasks = [Task(job, SOON_MS) for job in jobs]
        scheduler = Scheduler(Schedule(tasks, clock.monotonic_ms(), delay_ms=0, ages_ms={}), runner, clock, ended)
        running = asyncio.create_task(scheduler.run())
        waiting = asyncio.create_task(enough.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    return seen


# M: N-06
def test_a_job_that_fails_raises_or_hangs_does_not_stop_the_others() -> None:
    runner = ScriptedJobs({"fails": FAILED, "raises": ValueError("a bug"), "hangs": None, "works": JobEnd()})
    seen = until(lambda ended: min(ended["fails"], ended["raises"], ended["works"]) >= 3, runner, *runner.ends)
    ends = dict(seen)
    assert ends["fails"] == FAILED
    assert ends["raises"] == JobEnd(error="ValueError: a bug", broke_off=True)
    assert ends["works"] == JobEnd()
    assert "hangs" not in ends


def test_no_job_runs_twice_at_a_time_and_all_are_stopped_at_the_end() -> None:
    runner = ScriptedJobs({"works": JobEnd(), "hangs": None})
    until(lambda ended: ended["works"] >= 5, runner, *runner.ends)
    assert runner.most == {"works": 1, "hangs": 1}
    assert "hangs" in runner.stopped
    assert not +runner.running


def test_once_means_each_in_its_order_whatever_becomes_of_the_others() -> None:
    runner = ScriptedJobs({"raises": ValueError("a bug"), "fails": FAILED, "works": JobEnd()})
    seen: list[str] = []
    asyncio.run(run_once(list(runner.ends), runner, lambda job, end: seen.append(job)))
    assert seen == ["raises", "fails", "works"]


class RealJobs:
    """Roll and retention on a log in memory, in threads."""

    def __init__(self, log: MaintainedLog) -> None:
        self.log = log
        self.rolled = self.dropped = 0

    async def run(self, job: str) -> JobEnd:
        if job == "roll":
            report = await asyncio.to_thread(self.log.roll)
            self.rolled += report.done.objects
        else:
            report = await asyncio.to_thread(self.log.retention)
            self.dropped += report.done.objects
        return JobEnd(report, "failed" if report.exit_code else None)


# M: N-06
def test_two_leaders_in_a_duel_run_the_same_jobs_at_once_and_do_no_harm() -> None:
    for log in maintained(f"memory://{uuid.uuid4().hex}"):
        log.topic("t", 2, retention_ms=DAY_MS, file_delete_delay_ms=0, rewrite_delete_delay_ms=0, segment_bytes=1_000)
        log.append("t", 0, 20, timestamp_ms=log.clock.at_ms - 2 * DAY_MS)
        runner = RealJobs(log)

        async def duel(log: MaintainedLog = log, runner: RealJobs = runner) -> None:
            clock = SystemClock()
            ends: Counter[tuple[int, str]] = Counter()
            enough = asyncio.Event()

            def ended_at(leader: int) -> Callable[[str, JobEnd], None]:
                def ended(job: str, end: JobEnd) -> None:
                    assert end.error is None
                    ends[leader, job] += 1
                    if len(ends) == 4 and min(ends.values()) >= 4:
                        enough.set()

                return ended

            tasks = (Task("roll", 1), Task("retention", 1))
            leaders = [
                asyncio.create_task(
                    Scheduler(
                        Schedule(tasks, clock.monotonic_ms(), delay_ms=0, ages_ms={}), runner, clock, ended_at(leader)
                    ).run()
                )
                for leader in (1, 2)
            ]
            while not enough.is_set():
                await asyncio.to_thread(log.append, "t", 1, 3)
            for leader in leaders:
                leader.cancel()
            await asyncio.gather(*leaders, return_exceptions=True)

        asyncio.run(duel())
        log.check()
        assert runner.rolled
        assert runner.dropped
        assert log.log_start("t", 0) == 20
        assert log.roll().exit_code == log.retention().exit_code == 0
        log.check()
