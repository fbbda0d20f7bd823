"""Ranged reads that begin before they are needed, for stores that answer slowly; and one batch decoded ahead."""

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


def one_ahead(batches: Iterator[T]) -> Iterator[T]:
    """Yield the batches of an iterator. While the caller uses one, a thread decodes the next, and only that one."""
    make_next = partial(next, batches, None)
    coming = in_background(make_next, _DECODING)
    while (batch := coming.result()) is not None:
        coming = in_background(make_next, _DECODING)
        yield batch


def in_background(task: Callable[[], T], pool_name: str = "sparklog-read-ahead") -> Future[T]:
    """Run `task` in a thread pool of this process, and return its future."""
    with _lock:
        pool = _pools.get(pool_name)
        if pool is None:
            pool = _pools[pool_name] = ThreadPoolExecutor(THREADS, thread_name_prefix=pool_name)
    return pool.submit(task)
