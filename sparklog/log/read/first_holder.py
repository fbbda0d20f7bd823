"""Ask the holders of an object until one can answer: the nearest first, and those that failed lately last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from sparklog.core.errors import (
    Damaged,
    InvalidInput,
    KeyNotFound,
    RecordTooLarge,
    SparklogError,
    StoreAccessDenied,
    StoreUnavailable,
    UnsupportedVersion,
)
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.types import Offset
from sparklog.log.cluster_stores import Stores
from sparklog.storage.keys import data_key
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")

# After these errors the next holder is asked. (An unsupported format would be the same on every holder.)
# InvalidInput: the store's bucket is gone, or its keys have expired.
_NOT_FROM_HERE: Final = (KeyNotFound, Damaged, StoreUnavailable, StoreAccessDenied, InvalidInput)


@dataclass(frozen=True, slots=True)
class HolderFailure:
    """The reason why one holder could not answer. `store` is the holder's id and address, for messages."""

    store: str
    error: SparklogError


class NoHolderAnswers(Exception):
    """No holder could provide the records [at, part.slice.end). `failures` are in the order of asking.

    Internal to `log`: `read_errors.unreadable` turns it into the error for the caller.
    """

    def __init__(self, part: SliceToRead, topic: str, at: Offset, failures: Sequence[HolderFailure]) -> None:
        super().__init__(failures)
        self.part = part
        self.topic = topic
        self.at = at
        self.failures = tuple(failures)

    @property
    def may_be_replaced(self) -> bool:
        """True if the chain may name another object for the records by now.

        That is so if a holder lacks the object or has it damaged, or if no registered store is a holder.
        """
        return not self.failures or any(isinstance(failure.error, KeyNotFound | Damaged) for failure in self.failures)

    @property
    def reported_failure(self) -> HolderFailure:
        """Return the failure most likely to be temporary, to report it. Its message adds the other holders' errors.

        So its error is a KeyNotFound only if no holder has the object.
        """
        if not self.failures:
            number = self.part.object.number
            return HolderFailure("no store", KeyNotFound(f"object {number} is on none of the cluster's stores"))
        chosen = min(reversed(self.failures), key=lambda failure: _hope(failure.error))
        others = [f"{failure.store}: {failure.error}" for failure in self.failures if failure is not chosen]
        if not others:
            return chosen
        error = chosen.error
        return HolderFailure(
            chosen.store, type(error)(f"{error.message} (other holders: {'; '.join(others)})", landed=error.landed)
        )


def _hope(error: SparklogError) -> int:
    """Rank an error: the lower the rank, the more likely it is temporary.

    0 store unavailable, 1 access denied and others, 2 damaged, 3 missing.
    """
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
    """Yield the pairs (next offset, item) of `read(store, object key, start)` from the first holder that can answer.

    If a holder fails half-way, the next holder continues at the next offset of the last pair. A holder that can't be
    opened or does not answer is tried last in the next FAILED_FOR_MS, by all reads of this process. Only the timeout of
    a store limits the wait for its answer. Raises NoHolderAnswers, and UnsupportedVersion or RecordTooLarge, which
    every holder would raise.
    """
    at = start
    failures: list[HolderFailure] = []
    key = data_key(part.object.object, topic)
    for store_id in stores.holding(part):
        try:
            store = stores.get(store_id)
        except SparklogError as error:
            stores.note_failure(store_id, error)
            failures.append(HolderFailure(stores.named(store_id), error))
            continue
        try:
            for next_offset, item in read(store, key, at):
                yield next_offset, item
                at = next_offset
            return
        except (UnsupportedVersion, RecordTooLarge):
            raise  # it is the same everywhere
        except _NOT_FROM_HERE as error:
            stores.note_failure(store_id, error)
            failures.append(HolderFailure(stores.named(store_id), error))
    raise NoHolderAnswers(part, topic, at, failures) from (failures[-1].error if failures else None)


def first_answer(
    stores: Stores, part: SliceToRead, topic: str, start: Offset, ask: Callable[[ObjectStore, str], T]
) -> T:
    """Return the result of `ask(store, object key)` from the first holder that can answer.

    `start` is the first offset wanted, and is used only for messages. Raises what `from_first_holder` raises.
    """
    answers = from_first_holder(stores, part, topic, start, lambda store, key, at: [(at, ask(store, key))])
    ((_, answer),) = answers
    return answer
