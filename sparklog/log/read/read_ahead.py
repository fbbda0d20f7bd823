"""Start ranged reads before they are needed, for stores that answer slowly but can serve many reads at once."""

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


def _reset() -> None:
    """Forget the thread pool in a forked child: its threads do not exist there, and one may have held the lock."""
    global _lock, _pool
    _lock, _pool = Lock(), None


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
    coming: deque[Future[list[memoryview]]] = deque()
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


def in_background(fetch: Callable[[], T]) -> Future[T]:
    """Run `fetch` in the thread pool of this process, and return its future."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="sparklog-read-ahead")
        pool = _pool
    return pool.submit(fetch)
