"""Reads an offset range: slice by slice, and through the chain again where an object is gone.

A plan may be older than any delete delay. An object that is missing or damaged is tried on the next holder; then
the chain is asked for the rest of the range: rewritten -> the new object is read; retired -> the caller's
`fail_on_data_loss` decides; still named -> DATA_LOSS, or the damage itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Final

import pyarrow as pa

from sparklog.core.errors import Damaged, DataLoss, KeyNotFound, UnknownTopicOrPartition
from sparklog.core.plan import RangeToRead, SliceToRead
from sparklog.core.types import Offset, OffsetRange
from sparklog.log.object_reader import read_index, read_slice
from sparklog.log.read_ahead import in_background
from sparklog.log.stores import Stores
from sparklog.storage.keys import data_key

Replan = Callable[[RangeToRead, Offset], RangeToRead]  # (old plan, offset) -> a new plan of [offset, old end)


INDEXES_AHEAD: Final = 6
BODY_COLUMNS: Final = frozenset({"key", "value", "headers", "timestamp"})  # others mostly need no bytes


def scan(
    plan: RangeToRead, stores: Stores, columns: Sequence[str], replan: Replan, *, fail_on_data_loss: bool = True
) -> Iterator[pa.RecordBatch]:
    """The records of the plan as batches of `columns` of the read schema, ascending by offset.

    `replan` asks the chain again; what it gives may begin later than asked, if the log start has risen by then.
    Raises DataLoss if records are gone and `fail_on_data_loss` is true, Damaged if bytes are not what the chain says.
    """
    at = plan.start
    while at < plan.end:
        lost: tuple[SliceToRead, KeyNotFound | Damaged] | None = None
        ahead = _IndexesAhead(plan, stores) if set(columns) & BODY_COLUMNS else None
        for number, part in enumerate(plan.slices):
            if part.slice.end <= at:
                continue
            if ahead is not None:
                ahead.come_to(number)
            try:
                for batch in _read(part, OffsetRange(at, plan.end), plan.topic, stores, columns):
                    yield batch
                    at = Offset(max(at, part.slice.start) + batch.num_rows)
            except (KeyNotFound, Damaged) as error:
                lost = (part, error)
                break
            at = Offset(min(part.slice.end, plan.end))
        if lost is None:
            return
        plan = _plan_again(plan, at, lost, replan, fail_on_data_loss)
        at = plan.start


class _IndexesAhead:
    """Fetches the indexes of the next slices while one is read, from stores that answer late but many at once."""

    def __init__(self, plan: RangeToRead, stores: Stores) -> None:
        self._plan = plan
        self._stores = stores
        self._coming: dict[int, Future[object]] = {}

    def come_to(self, number: int) -> None:
        """Slice `number` is next: its index is there, or the reader will say why not."""
        for index in range(number, min(number + INDEXES_AHEAD, len(self._plan.slices))):
            part = self._plan.slices[index]
            if part.object.number in self._coming:
                continue
            store = self._stores.holding(part.object)[0]
            if store.read_ahead == 0:
                return
            key = data_key(part.object.object, self._plan.topic)
            self._coming[part.object.number] = in_background(partial(read_index, store, key, part.object))
        coming = self._coming.get(self._plan.slices[number].object.number)
        if coming is not None:
            wait([coming])


def _read(
    part: SliceToRead, offsets: OffsetRange, topic: str, stores: Stores, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Batches of one slice, each from the first holder that has it whole; raises the error of the last holder."""
    key = data_key(part.object.object, topic)
    at = max(offsets.start, part.slice.start)
    *others, last = stores.holding(part.object)
    for store in others:
        try:
            for batch in read_slice(store, key, part.object, part.slice, OffsetRange(at, offsets.end), topic, columns):
                yield batch
                at = Offset(at + batch.num_rows)
            return
        except (KeyNotFound, Damaged):
            continue  # at stands behind what was yielded: the next holder goes on from there
    yield from read_slice(last, key, part.object, part.slice, OffsetRange(at, offsets.end), topic, columns)


def _plan_again(
    plan: RangeToRead,
    at: Offset,
    lost: tuple[SliceToRead, KeyNotFound | Damaged],
    replan: Replan,
    fail_on_data_loss: bool,
) -> RangeToRead:
    part, error = lost
    where = f"{plan.topic}-{plan.partition}"
    try:
        again = replan(plan, at)
    except UnknownTopicOrPartition as gone:
        if fail_on_data_loss:
            raise DataLoss(f"{where} from offset {at} on: the topic was deleted ({gone.message})") from error
        return RangeToRead(plan.topic, plan.topic_id, plan.partition, plan.end, plan.end, (), plan.position)
    if again.start > at and fail_on_data_loss:
        raise DataLoss(
            f"{where}: records [{at}, {again.start}) were removed by retention after this read was planned; "
            "set failOnDataLoss=false to go on with those that are left"
        ) from error
    still = any(each.object.number == part.object.number and each.slice.end > again.start for each in again.slices)
    if still and isinstance(error, KeyNotFound):
        raise DataLoss(f"{where}: records from offset {at} on are lost: {error.message}") from error
    if still:
        raise error
    return again
