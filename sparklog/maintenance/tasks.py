"""Where the heavy part of a job runs: a port, and its simplest adapter, this process. `spark/tasks.py` has the other.

Payloads and results are bytes, and a task is a function of a module, so that any process with sparklog installed can
run it. A task reports its failures in its result: one that fails must not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Task = Callable[[bytes], bytes]


class TaskRunner(Protocol):
    """Runs the tasks of one job."""

    @property
    def tasks_at_once(self) -> int:
        """How many tasks to hand over in one call of `run`; what they did is committed before the next call."""
        ...

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        """`task` of each payload, in their order. Raises SparklogError if they could not be run."""
        ...


class LocalTasks:
    """Runs tasks in this process, one after the other, each committed before the next begins."""

    tasks_at_once = 1

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        """`task` of each payload, in their order."""
        return [task(payload) for payload in payloads]
