"""What the error of a read says: whose records could not be read, from which store, and what to run next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sparklog.core.errors import Damaged, DataLoss, KeyNotFound, SparklogError


@contextmanager
def damage_of(start: int, end: int) -> Iterator[None]:
    """Damage that is met inside is damage of the offsets [start, end)."""
    try:
        yield
    except Damaged as error:
        raise Damaged(f"offsets [{start}, {end}): {error.message}") from error


def placed(error: SparklogError, place: str, at: int, store: str) -> SparklogError:
    """The same error with the partition (`place`: topic-partition), where the reader was, and the store it asked.

    Of an absent object only the store is added: whether its records are lost is still to be found out (`lost`).
    """
    if isinstance(error, KeyNotFound):
        return KeyNotFound(f"{error.message} ({store})")
    if isinstance(error, Damaged):
        message = f"{place} on {store}, {error.message}; {_dump(place, at)} shows which batches are damaged"
    else:
        message = f"{place} from offset {at} on: {error.message} ({store})"
    return type(error)(message, landed=error.landed)


def lost(place: str, start: int, end: int, error: KeyNotFound) -> DataLoss:
    """Records [start, end) are named by the chain, and no holder has their object."""
    return DataLoss(
        f"{place}: records [{start}, {end}) are lost: {error.message}; put the object back from a backup, or read on "
        f"at {end}; {_dump(place, start)} and 'sparklog cluster health' show what else is missing"
    )


def unreadable(error: SparklogError, place: str, at: int, end: int, store: str) -> SparklogError:
    """The error for records [at, end) that the chain still names, of the last store that was asked for them."""
    found = placed(error, place, at, store)
    return lost(place, at, end, found) if isinstance(found, KeyNotFound) else found


def _dump(place: str, at: int) -> str:
    topic, _, partition = place.rpartition("-")
    return f"'sparklog segment dump {topic} -p {partition} --offset {at}'"
