"""A runner of tasks for jobs that are to have several at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sparklog.maintenance.task_runner import LocalTasks, Task


class ThreadTasks(LocalTasks):
    """Four tasks at once, in threads."""

    tasks_at_once = 4

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(task, payloads))
