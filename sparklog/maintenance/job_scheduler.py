"""Runs jobs by a schedule in an event loop: in the coordinator that leads, and in `sparklog job run-all`.

`core/maintenance/schedule.py` decides which job is due. A failed job is recorded and shown; the others continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from sparklog.core.maintenance.schedule import Schedule
from sparklog.host.clock import Clock
from sparklog.maintenance.job_command import JobEnd

Ended = Callable[[str, JobEnd], None]


class JobRunner(Protocol):
    """Runs a job to its end. If cancelled, it stops the job first."""

    async def run(self, job: str) -> JobEnd: ...


class Scheduler:
    """Runs the jobs of one schedule. `ended` is called at the end of each run, in the event loop."""

    def __init__(self, schedule: Schedule, runner: JobRunner, clock: Clock, ended: Ended) -> None:
        self.schedule = schedule
        self._runner = runner
        self._clock = clock
        self._ended = ended
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run the jobs when they are due. If cancelled, stop the running jobs, then end."""
        try:
            while True:
                now_ms = self._clock.monotonic_ms()
                for job in self.schedule.due(now_ms):
                    self.schedule.started(job, now_ms)
                    self._running.add(asyncio.create_task(self._run(job)))
                await self._wait(self.schedule.wait_ms(now_ms))
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _wait(self, longest_ms: int | None) -> None:
        """Wait until a running job ends, but at most `longest_ms` (None: no limit).

        If no job is running, waits `longest_ms`.
        """
        longest_s = None if longest_ms is None else longest_ms / 1000
        if not self._running:
            await asyncio.sleep(longest_s or 0)
            return
        done, self._running = await asyncio.wait(self._running, timeout=longest_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _run(self, job: str) -> None:
        end = await run_to_end(self._runner, job)
        self.schedule.ended(job, self._clock.monotonic_ms(), broke_off=end.broke_off)
        self._ended(job, end)


async def run_once(jobs: Sequence[str], runner: JobRunner, ended: Ended) -> None:
    """Run the jobs one after the other, each once, even if some fail."""
    for job in jobs:
        ended(job, await run_to_end(runner, job))


async def run_to_end(runner: JobRunner, job: str) -> JobEnd:
    """Run a job, and return its result.

    If the runner raises an error, the result has this error's text as `error`, and `broke_off` is true.
    """
    try:
        return await runner.run(job)
    except Exception as error:
        return JobEnd(error=f"{type(error).__name__}: {error}", broke_off=True)
