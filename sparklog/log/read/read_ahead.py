"""Ranged reads that begin before they are needed, for stores that answer slowly; and one batch decoded ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final, Generic, TypeVar

from sparklog.host.fork import after_fork_in_child
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")
THREADS: Final = 8
_DECODING: Final = "sparklog-decoding"  # a pool of its own: no batch waits for the answer of a store

_lock = Lock()
_pools: dict[str, ThreadPoolExecutor] = {}


def _reset() -> None:
    """Forget the thread pools in a forked child: their threads do not exist there, and one may have held the lock."""
    global _lock, _pools
    _lock, _pools = Lock(), {}


after_fork_in_child(_reset)


def bodies(
    store: ObjectStore, key: str, ranges: Sequence[tuple[int, int]], fetched: Sequence[memoryview] = ()
) -> Iterator[memoryview]:
    """Yield the bytes of each range, in order. Up to `store.read_ahead` further ranges are fetched in the background.

    `fetched` has the bytes of the first ranges if they were already read. Fetches that are not needed any more are
    cancelled when the caller stops. Raises what `ObjectStore.get_ranges` raises.
    """
    if store.read_ahead == 0 or len(ranges) == 1:
        yield from fetched
        for range_ in ranges[len(fetched) :]:
            yield store.get_ranges(key, [range_])[0]
        return
    left = iter(ranges[len(fetched) :])
    coming: deque[Coming[list[memoryview]]] = deque()
    try:
        for body in [*fetched, None]:
            while len(coming) <= store.read_ahead and (wanted := next(left, None)) is not None:
                coming.append(in_background(partial(store.get_ranges, key, [wanted])))
            if body is not None:
                yield body
        while coming:
            yield coming.popleft().result()[0]
            if (wanted := next(left, None)) is not None:
                coming.append(in_background(partial(store.get_ranges, key, [wanted])))
    finally:
        for unread in coming:
            unread.cancel()


def one_ahead(tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield the results of the tasks, at least one. While the caller uses one, a thread runs the next task only."""
    left = iter(tasks)
    coming = in_background(next(left), _DECODING)
    for task in left:
        result = coming.result()
        coming = in_background(task, _DECODING)
        yield result
    yield coming.result()


class Coming(Generic[T]):
    """The result of a task that a thread runs, is to run, or has run.

    The caller runs the task itself if no thread can: none starts once the main thread has ended, and a forked child
    lacks the threads of its parent. So a task may run twice.
    """

    def __init__(self, task: Callable[[], T], future: Future[T] | None) -> None:
        self._task = task
        self._future = future
        self._process = os.getpid()

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the result of the task. Raises what the task raises, and TimeoutError."""
        return self._task() if (future := self._here()) is None else future.result(timeout_s)

    def done(self) -> bool:
        """True if `result` does not wait for the task."""
        return (future := self._here()) is not None and future.done()

    def cancel(self) -> None:
        """Prevent the start of the task, unless it has begun."""
        if (future := self._here()) is not None:
            future.cancel()

    def _here(self) -> Future[T] | None:
        """Return the future; None in a forked child, where a thread of the parent may have held its lock for ever."""
        return self._future if self._process == os.getpid() else None


def in_background(task: Callable[[], T], pool_name: str = "sparklog-read-ahead") -> Coming[T]:
    """Run `task`, which may run twice, in a thread pool of this process."""
    with _lock:
        pool = _pools.get(pool_name)
        if pool is None:
            pool = _pools[pool_name] = ThreadPoolExecutor(THREADS, thread_name_prefix=pool_name)
    try:
        return Coming(task, pool.submit(task))
    except RuntimeError:  # no thread can start
        return Coming(task, None)
