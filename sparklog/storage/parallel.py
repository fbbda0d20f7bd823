"""Work on many objects of a store, several at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from sparklog.storage.object_store import ObjectStore

AT_ONCE: Final = 8

T = TypeVar("T")


def delete_each(store: ObjectStore, keys: Sequence[str]) -> None:
    """Delete `keys` with one request each, for a store that has no request for many.

    After an error the other keys are still deleted. Then the error of the first key that failed is raised.
    """
    in_parallel(store.delete, keys)


def in_parallel(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Call `work` with each item, `AT_ONCE` at a time. Then raise the error of the first item that failed, if any."""
    if len(items) < 2:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(min(AT_ONCE, len(items))) as pool:
        running = [pool.submit(work, item) for item in items]
    for ended in running:
        ended.result()
