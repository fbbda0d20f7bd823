"""The jobs that a coordinator runs while it leads. A new leader continues from the last runs that the chain records.

A deposed leader stops its jobs. That is a courtesy, not a guarantee: a job changes the log only by commands that the
chain accepts or refuses, so two leaders that run the same job do no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from sparklog.chain.follow.follower import Follower
from sparklog.coordinator.leading.control import LogEvent
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.maintenance.schedule import Planned, Schedule
from sparklog.host.clock import Clock
from sparklog.host.dice import jittered
from sparklog.maintenance.job_command import JobEnd
from sparklog.maintenance.job_scheduler import JobRunner, Scheduler
from sparklog.maintenance.jobs import ages_ms, in_order, scheduled_tasks
from sparklog.wire.job_messages import JobStanding, LastRun, last_run

FIRST_DELAY_MS: Final = 30_000  # longest delay of the first job, as in Kafka: a new leader has more urgent work


class Scheduling:
    """Runs the scheduled jobs of one coordinator while it leads. To be used in one event loop.

    `runner` is the object that runs a job. If `runner` is None, no job runs.
    """

    def __init__(
        self,
        follower: Follower,
        runner: JobRunner | None,
        say: LogEvent,
        clock: Clock,
    ) -> None:
        self._follower = follower
        self._runner = runner
        self._say = say
        self._clock = clock
        self._scheduler: Scheduler | None = None  # while this process leads
        self._present: asyncio.Task[None] | None = None  # runs that scheduler
        self._tasks: set[asyncio.Task[None]] = set()  # this one, and former ones that are still stopping their jobs
        self._errors: dict[str, str] = {}  # by job, of its last run here

    def begin(self) -> None:
        """Begin to run jobs. Call this when the process becomes the leader."""
        if self._runner is None:
            return
        state = self._follower.state
        tasks = scheduled_tasks(effective_cluster(state.config))
        first_delay_ms = min(FIRST_DELAY_MS, *(task.interval_ms for task in tasks))
        schedule = Schedule(
            tasks,
            self._clock.monotonic_ms(),
            delay_ms=round(jittered(first_delay_ms)),
            ages_ms=ages_ms(state, tasks, self._clock.now_ms()),
        )
        self._errors = {}
        self._scheduler = Scheduler(schedule, self._runner, self._clock, self._ended)
        self._present = asyncio.create_task(_run_after(frozenset(self._tasks), self._scheduler))
        self._tasks.add(self._present)
        self._present.add_done_callback(self._stopped)

    def end(self) -> None:
        """Begin to stop the jobs, without waiting for them. Call this when the process ceases to lead."""
        if self._present is not None:
            self._present.cancel()
        self._scheduler = self._present = None

    async def close(self) -> None:
        """Stop the jobs, and wait until they have stopped."""
        self.end()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def standing(self) -> tuple[JobStanding, ...]:
        """The last run of each job, and its next run if the job is scheduled."""
        state = self._follower.state
        schedule = () if self._scheduler is None else self._scheduler.schedule
        planned = {job.task.name: job for job in schedule}
        return tuple(
            self._standing(name, last_run(state.jobs[name]) if name in state.jobs else None, planned.get(name))
            for name in in_order({*planned, *state.jobs})
        )

    def _standing(self, name: str, last: LastRun | None, planned: Planned | None) -> JobStanding:
        if planned is None:
            return JobStanding(name, last)
        ahead_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        return JobStanding(
            name,
            last,
            planned.task.interval_ms,
            None if planned.started_ms is None else planned.started_ms + ahead_ms,
            None if planned.running else planned.due_ms + ahead_ms,
            planned.broken_runs,
            self._errors.get(name),
        )

    def _stopped(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._say("error", f"the scheduler failed, no job runs until another process leads: {error!r}")

    def _ended(self, job: str, end: JobEnd) -> None:
        if end.error is not None:
            self._errors[job] = end.error
            self._say("error", f"{job}: {end.error}")
        elif self._errors.pop(job, None) is not None or end.did_something:
            self._say("job", f"{job}: {end.summary}")


async def _run_after(ending: Collection[asyncio.Task[None]], scheduler: Scheduler) -> None:
    """Wait for the tasks `ending`, which stop the jobs of earlier schedulers. Then run the scheduler.

    Because of this wait, the process never runs the same job twice at once.
    """
    if ending:
        await asyncio.wait(ending)
    await scheduler.run()
