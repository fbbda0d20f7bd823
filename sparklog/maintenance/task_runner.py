"""The port for running the heavy part of a job, and an adapter that runs it in this process.

The other adapter is `spark/maintain/spark_tasks.py`. Payloads and results are bytes, and a task is a function at module
level, so any process with sparklog installed can run it. A task reports its failures in its result: a failed task must
not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
Task = Callable[[bytes], bytes]


class TaskRunner(Protocol):
    """Runs the tasks of one job."""

    @property
    def in_this_process(self) -> bool:
        """True if tasks run in this process. Only then can they reach a cluster in memory (`memory:` address)."""
        ...

    @property
    def tasks_at_once(self) -> int:
        """The number of tasks to pass to one call of `run`. Their results are committed before the next call."""
        ...

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        """Return the result of `task` for each payload, in order. Raises SparklogError if tasks could not be run."""
        ...


class LocalTasks:
    """Runs tasks in this process, one at a time. The result of each is committed before the next one begins."""

    in_this_process = True
    tasks_at_once = 1

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        """The results of `task` for each payload, in order."""
        return [task(payload) for payload in payloads]


def packs(items: Iterable[T], *limits: tuple[Callable[[T], int], int]) -> Iterator[tuple[T, ...]]:
    """Distribute items over tasks, in order, and yield the items of each task.

    A limit is a function that measures an item, and the maximum for the sum over the items of a task. An item that
    exceeds a limit by itself gets a task of its own.
    """
    pack: list[T] = []
    used = [0] * len(limits)
    for item in items:
        sizes = [measure(item) for measure, _ in limits]
        if pack and any(have + size > most for have, size, (_, most) in zip(used, sizes, limits, strict=True)):
            yield tuple(pack)
            pack, used = [], [0] * len(limits)
        pack.append(item)
        used = [have + size for have, size in zip(used, sizes, strict=True)]
    if pack:
        yield tuple(pack)
