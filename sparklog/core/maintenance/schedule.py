"""Schedules recurring tasks: one run of a task at a time, at intervals, with longer pauses after runs that broke off.

    due(now) ─► the caller starts these tasks: started(name, now) ─► ended(name, now, broke_off=…) ─► due again

All times are milliseconds of one monotonic clock. The caller decides what runs, and where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparklog.core.pauses import pause_ms_after

LONGEST_PAUSE_MS: Final = 3_600_000  # between runs that break off, unless the interval itself is longer
LONGEST_WAIT_MS: Final = 300_000  # longest time that a due task waits for those before it


@dataclass(frozen=True, slots=True)
class Task:
    """A recurring task. `interval_ms` is the time from the start of one run to the start of the next."""

    name: str
    interval_ms: int

    def __post_init__(self) -> None:
        if self.interval_ms < 1:
            raise ValueError(f"{self.name}: wanted an interval of 1 ms or more, found {self.interval_ms}")


@dataclass(slots=True)
class Planned:
    """The state of a task: due at `due_ms`, or running since `started_ms`.

    `broken_runs`: the number of runs in a row that broke off (left no report).
    """

    task: Task
    due_ms: int
    started_ms: int | None = None
    broken_runs: int = 0

    @property
    def running(self) -> bool:
        return self.started_ms is not None

    def pause_ms(self) -> int:
        """The time in milliseconds from the start of the last run until the next one is due."""
        if not self.broken_runs:
            return self.task.interval_ms
        longest_ms = max(self.task.interval_ms, LONGEST_PAUSE_MS)
        return pause_ms_after(self.broken_runs - 1, self.task.interval_ms, longest_ms)


class Schedule:
    """The tasks of one process in a fixed order. A due task waits while a task before it is due or running.

    A task waits no longer than its own interval, and no longer than LONGEST_WAIT_MS, so a hanging task stops no other.
    """

    def __init__(self, tasks: Sequence[Task], now_ms: int, *, delay_ms: int, ages_ms: Mapping[str, int]) -> None:
        """Schedule the first run of each task, at least `delay_ms` from now.

        `ages_ms`: the time since the last run of a task began. A task that never ran (it has no age), or whose interval
        has passed, is due after `delay_ms`. An age comes from the clocks of other computers: a negative one counts as
        0, so a wrong clock delays a task by one interval at most.
        """
        self._planned: dict[str, Planned] = {}
        for task in tasks:
            left_ms = task.interval_ms - max(0, ages_ms[task.name]) if task.name in ages_ms else 0
            self._planned[task.name] = Planned(task, now_ms + max(delay_ms, left_ms))

    def __getitem__(self, name: str) -> Planned:
        return self._planned[name]

    def __iter__(self) -> Iterator[Planned]:
        return iter(self._planned.values())

    def due(self, now_ms: int) -> list[str]:
        """The names of the tasks to start now."""
        return [
            planned.task.name
            for planned in self
            if not planned.running and planned.due_ms <= now_ms and not self._waits(planned, now_ms)
        ]

    def wait_ms(self, now_ms: int) -> int | None:
        """Return the milliseconds until a task may start if no run ends earlier; None if all tasks are running."""
        left_ms = [
            (_patience_end_ms(planned) if planned.due_ms <= now_ms else planned.due_ms) - now_ms
            for planned in self
            if not planned.running
        ]
        return max(0, min(left_ms)) if left_ms else None

    def started(self, name: str, now_ms: int) -> None:
        """Note that a run of this task begins."""
        planned = self._planned[name]
        if planned.running:
            raise AssertionError(f"{name} is already running")
        planned.started_ms = now_ms

    def ended(self, name: str, now_ms: int, *, broke_off: bool) -> None:
        """Note that the run of this task has ended. If it broke off (left no report), the next pause is longer.

        After a run that took longer than its interval, the task is due at once, but only once, even if several
        intervals have passed.
        """
        planned = self._planned[name]
        if planned.started_ms is None:
            raise AssertionError(f"{name} is not running")
        planned.broken_runs = planned.broken_runs + 1 if broke_off else 0
        planned.due_ms = max(now_ms, planned.started_ms + planned.pause_ms())
        planned.started_ms = None

    def _waits(self, waiting: Planned, now_ms: int) -> bool:
        if now_ms >= _patience_end_ms(waiting):
            return False
        for planned in self:
            if planned is waiting:
                return False
            if planned.running or planned.due_ms <= now_ms:
                return True
        return False


def _patience_end_ms(planned: Planned) -> int:
    """The time at which a due task stops waiting for the tasks before it in the schedule."""
    return planned.due_ms + min(planned.task.interval_ms, LONGEST_WAIT_MS)
