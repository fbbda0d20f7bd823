"""Where the heavy part of a job runs: a port, and its simplest adapter, this process. The other is `spark/tasks.py`.

Payloads and results are bytes, and a task is a function at module level, so any process with sparklog installed can run
it. A task reports its failures in its result: a task that fails must not stop the others.
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
        """Whether tasks run in this process: only then can they reach a cluster that lives in its memory."""
        ...

    @property
    def tasks_at_once(self) -> int:
        """How many tasks to pass to one call of `run`. Their results are committed before the next call."""
        ...

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        """The results of `task` for each payload, in order. Raises SparklogError if the tasks could not be run."""
        ...


class LocalTasks:
    """Runs tasks in this process, one at a time. Each is committed before the next one begins."""

    in_this_process = True
    tasks_at_once = 1

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        """The results of `task` for each payload, in order."""
        return [task(payload) for payload in payloads]


def packs(
    items: Iterable[T], size_bytes: Callable[[T], int], most_bytes: int, most_items: int
) -> Iterator[tuple[T, ...]]:
    """Distribute items over tasks, in order, within both limits. An item that exceeds `most_bytes` is alone."""
    pack: list[T] = []
    pack_bytes = 0
    for item in items:
        item_bytes = size_bytes(item)
        if pack and (pack_bytes + item_bytes > most_bytes or len(pack) == most_items):
            yield tuple(pack)
            pack, pack_bytes = [], 0
        pack.append(item)
        pack_bytes += item_bytes
    if pack:
        yield tuple(pack)
