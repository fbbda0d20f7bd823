"""Asks the stores that hold an object, in the order in which its plan names them, until one can answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from sparklog.core.errors import Damaged, KeyNotFound, SparklogError, StoreAccessDenied, StoreUnavailable
from sparklog.core.plan import SliceToRead
from sparklog.core.types import Offset
from sparklog.log.stores import Stores
from sparklog.storage.keys import data_key
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")

# With these the next holder of the object is asked. (A format that this version does not read is the same everywhere.)
_NOT_FROM_HERE: Final = (KeyNotFound, Damaged, StoreUnavailable, StoreAccessDenied)


@dataclass(frozen=True, slots=True)
class HolderFailure:
    """Why one holder could not answer. `store` is its id and address, for messages."""

    store: str
    error: SparklogError


class NoHolderAnswers(Exception):
    """No holder could give the records from offset `at` on to `part.slice.end`; `failures` come as they were asked.

    It stays inside the log: `read_errors.unreadable` makes of it what a caller is told.
    """

    def __init__(self, part: SliceToRead, topic: str, at: Offset, failures: Sequence[HolderFailure]) -> None:
        super().__init__(failures)
        self.part = part
        self.topic = topic
        self.at = at
        self.failures = tuple(failures)

    @property
    def may_be_replaced(self) -> bool:
        """Whether a holder was found not to have the object, or not whole: the chain may name another one by now."""
        return not self.failures or any(isinstance(each.error, KeyNotFound | Damaged) for each in self.failures)

    @property
    def telling(self) -> HolderFailure:
        """The failure that leaves most hope: records are lost only if no holder may have them after all.

        Its message names the other holders' errors too.
        """
        if not self.failures:
            number = self.part.object.number
            return HolderFailure("no store", KeyNotFound(f"object {number} is on none of the cluster's stores"))
        chosen = min(reversed(self.failures), key=lambda each: _hope(each.error))
        others = [f"{each.store}: {each.error}" for each in self.failures if each is not chosen]
        if not others:
            return chosen
        error = chosen.error
        return HolderFailure(
            chosen.store, type(error)(f"{error.message} (other holders: {'; '.join(others)})", landed=error.landed)
        )


def _hope(error: SparklogError) -> int:
    """A store that comes back before one that must be put right first, before bytes that are damaged or gone."""
    match error:
        case StoreUnavailable():
            return 0
        case Damaged():
            return 2
        case KeyNotFound():
            return 3
        case _:
            return 1


def from_first_holder(
    stores: Stores,
    part: SliceToRead,
    topic: str,
    start: Offset,
    read: Callable[[ObjectStore, str, Offset], Iterable[tuple[Offset, T]]],
) -> Iterator[tuple[Offset, T]]:
    """What `read(store, object key, start)` gives, from the first holder that can: pairs of (offset behind it, item).

    If a holder fails half-way, the next one goes on from the offset behind the last item. A store is opened when its
    turn comes, and one that can't be opened is passed over like one that does not answer. Raises NoHolderAnswers.
    """
    at = start
    failures: list[HolderFailure] = []
    key = data_key(part.object.object, topic)
    for store_id in stores.holding(part):
        try:
            store = stores.get(store_id)
        except SparklogError as error:
            failures.append(HolderFailure(stores.named(store_id), error))
            continue
        try:
            for behind, item in read(store, key, at):
                yield behind, item
                at = behind
            return
        except _NOT_FROM_HERE as error:
            failures.append(HolderFailure(stores.named(store_id), error))
    raise NoHolderAnswers(part, topic, at, failures) from (failures[-1].error if failures else None)


def first_answer(
    stores: Stores, part: SliceToRead, topic: str, start: Offset, ask: Callable[[ObjectStore, str], T]
) -> T:
    """What `ask(store, object key)` gives with the first holder that can answer. Raises NoHolderAnswers.

    `start` is the offset from which records are wanted, for messages.
    """
    answers = from_first_holder(stores, part, topic, start, lambda store, key, at: [(at, ask(store, key))])
    ((_, answer),) = answers
    return answer
