"""Asks the stores that hold an object, one after the other, until one can answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from sparklog.core.errors import Damaged, KeyNotFound, StoreAccessDenied, StoreUnavailable
from sparklog.core.types import Offset
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")

# With these another holder of the object is asked.
NOT_FROM_HERE: Final = (KeyNotFound, Damaged, StoreUnavailable, StoreAccessDenied)


def from_first_holder(
    holders: Sequence[ObjectStore],
    start: Offset,
    read: Callable[[ObjectStore, Offset], Iterable[tuple[Offset, T]]],
) -> Iterator[tuple[Offset, T]]:
    """What `read(store, start)` gives, from the first holder that can. Each item comes with the offset behind it.

    If a holder fails, the next one goes on from the offset behind the last item. Raises the last holder's error.
    """
    at = start
    for store in holders:
        try:
            for behind, item in read(store, at):
                yield behind, item
                at = behind
            return
        except NOT_FROM_HERE:
            if store is holders[-1]:
                raise


def first_answer(holders: Sequence[ObjectStore], ask: Callable[[ObjectStore], T]) -> T:
    """What `ask` gives with the first holder that can answer. Raises the last holder's error."""
    ((_, answer),) = from_first_holder(holders, Offset(0), lambda store, at: [(at, ask(store))])
    return answer
