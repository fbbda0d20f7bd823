"""The errors of a read. They name the unreadable records, the store and, where one helps, the command to run next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sparklog.core.errors import Damaged, DataLoss, KeyNotFound, RecordTooLarge, SparklogError
from sparklog.log.read.first_holder import NoHolderAnswers


@contextmanager
def damage_of(start: int, end: int) -> Iterator[None]:
    """Add the offsets [start, end) to the message of a Damaged or RecordTooLarge raised inside the block."""
    try:
        yield
    except (Damaged, RecordTooLarge) as error:
        raise type(error)(f"offsets [{start}, {end}): {error.message}") from error


def unreadable(unanswered: NoHolderAnswers) -> SparklogError:
    """Return the error for records that the chain still names, but that no holder can provide.

    It is DataLoss if every holder lacks the object, or if the object has no holder. Otherwise it has the same type as
    one holder's error: the one most likely to be temporary. Its message names the partition and the offset.
    """
    slice = unanswered.part.slice
    place, at = f"{unanswered.topic}-{slice.partition}", unanswered.at
    store, error = unanswered.reported_failure.store, unanswered.reported_failure.error
    if isinstance(error, KeyNotFound):
        return DataLoss(
            f"{place}: records [{at}, {slice.end}) are lost: {error.message} ({store}); put the object back from a "
            f"backup, or read on at {slice.end}; {_dump(place, at)} and 'sparklog cluster health' show what else is "
            "missing"
        )
    if isinstance(error, Damaged):
        message = f"{place} on {store}, {error.message}; {_dump(place, at)} shows which batches are damaged"
    else:
        message = f"{place} from offset {at} on: {error.message} ({store})"
    return type(error)(message, landed=error.landed)


def may_be_replaced(error: SparklogError) -> bool:
    """True if `error` was made by `unreadable`, and a newer state may name another object for its records.

    That is possible if a holder lacked the object or had it damaged, even if another holder did not answer. It is also
    possible if no registered store was a holder.
    """
    return isinstance(error.__cause__, NoHolderAnswers) and error.__cause__.may_be_replaced


def _dump(place: str, at: int) -> str:
    topic, _, partition = place.rpartition("-")
    return f"'sparklog segment dump {topic} -p {partition} --offset {at}'"
