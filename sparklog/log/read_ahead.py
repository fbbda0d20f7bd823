"""Ranged reads that are on their way before they are needed, where a store answers late but many at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final, TypeVar

from sparklog.host.fork import after_fork_in_child
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")
THREADS: Final = 8

_lock = Lock()
_pool: ThreadPoolExecutor | None = None


def _begin_anew() -> None:
    """Threads do not survive a fork, and a lock may have been held by one of them."""
    global _lock, _pool
    _lock, _pool = Lock(), None


after_fork_in_child(_begin_anew)


def bodies(
    store: ObjectStore, key: str, ranges: Sequence[tuple[int, int]], there: Sequence[memoryview] = ()
) -> Iterator[memoryview]:
    """The bytes of each range, in order; `store.read_ahead` more are fetched while the caller works on one.

    `there` are the bytes of the first ranges, as far as they are there already.
    Raises what `ObjectStore.get_ranges` raises. What is on its way when the caller stops is dropped.
    """
    if store.read_ahead == 0 or len(ranges) == 1:
        yield from there
        for each in ranges[len(there) :]:
            yield store.get_ranges(key, [each])[0]
        return
    left = iter(ranges[len(there) :])
    coming: deque[Future[list[memoryview]]] = deque()
    try:
        for body in [*there, None]:
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


def in_background(fetch: Callable[[], T]) -> Future[T]:
    """Fetch in a thread of this process that is kept for it."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="sparklog-read-ahead")
        pool = _pool
    return pool.submit(fetch)
