"""Read an offset range slice by slice, and plan again if an object is gone.

A plan may be so old that its objects were deleted. If an object is missing or damaged, the next holder is tried. If no
holder has it whole, the rest of the range is planned again with the newest state. The new plan may name a rewritten
object, which is read. Or the records were retired: then `fail_on_data_loss` decides. Or it names the same object again:
then the read fails with DATA_LOSS, or with the damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from sparklog.core.errors import DataLoss, SparklogError, UnknownTopicOrPartition
from sparklog.core.reading.plan import RangeToRead, SliceToRead
from sparklog.core.types import Offset, OffsetRange, StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.first_holder import NoHolderAnswers, from_first_holder
from sparklog.log.read.object_reader import FIRST_READS, read_first, read_slice
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES
from sparklog.log.read.read_ahead import in_background
from sparklog.log.read.read_errors import unreadable
from sparklog.log.records_schema import read_schema
from sparklog.storage.keys import data_key
from sparklog.storage.object_store import ObjectStore

Replan = Callable[[RangeToRead, Offset], RangeToRead]  # (old plan, offset) -> a new plan of [offset, old end)


SLICES_AHEAD: Final = 6
BYTES_AHEAD: Final = FIRST_READS * RANGED_READ_BYTES


def scan(
    plan: RangeToRead,
    stores: Stores,
    columns: Sequence[str],
    replan: Replan,
    *,
    fail_on_data_loss: bool = True,
    skip_option: str = "fail_on_data_loss=False",
    ahead: SlicesAhead | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the records of the plan, ascending by offset. Yields batches of `columns` of the read schema.

    `ahead`: an object made for this plan, which may already be fetching the first slice. `replan` plans the rest of the
    range with the newest state. The new plan may begin later, if the log start has risen. `skip_option` is the option
    that a DataLoss advises the user to set.

    Raises InvalidInput for unknown columns, and DataLoss if records were removed or given up and `fail_on_data_loss` is
    true. If no holder can provide records that the chain still names, raises DataLoss (all holders lack the object,
    whatever `fail_on_data_loss` is), or else Damaged, StoreUnavailable or StoreAccessDenied.
    """
    read_schema(columns)  # no holder can help if the columns are wrong
    at = plan.start
    while at < plan.end:
        if plan.lost and fail_on_data_loss:
            raise _lost(plan, skip_option)
        failed: NoHolderAnswers | None = None
        with closing(ahead or SlicesAhead(plan, stores, columns)) as slices_ahead:
            for number, part in enumerate(plan.slices):
                fetched = slices_ahead.come_to(number)
                try:
                    for next_offset, batch in _read(
                        part, OffsetRange(at, plan.end), plan.topic, stores, columns, fetched
                    ):
                        yield batch
                        at = next_offset
                    # The end of a compacted slice may be a gap. Nothing is left to read there, whatever happens next.
                    at = max(at, min(part.slice.end, plan.end))
                except NoHolderAnswers as unanswered:
                    failed = unanswered
                    break
        if failed is None:
            return
        plan = _plan_again(plan, at, failed, replan, skip_option if fail_on_data_loss else None)
        at = plan.start
        ahead = None


class _Fetched(NamedTuple):
    """The first bytes of an upcoming slice, fetched from `store`, the first holder to try."""

    store: ObjectStore
    bodies: list[memoryview]


class _PendingFetch(NamedTuple):
    """A fetch of the first bytes of a slice from the store `store_id`. It may have ended."""

    store_id: StoreId
    fetched: Future[_Fetched]


class SlicesAhead:
    """Fetches the first bytes of the next slices (`read_first`) while one slice is read.

    Fetches only from stores that answer slowly but serve many reads at once (`read_ahead` > 0).
    """

    def __init__(self, plan: RangeToRead, stores: Stores, columns: Sequence[str]) -> None:
        self._plan = plan
        self._stores = stores
        self._columns = columns
        self._coming: dict[int, _PendingFetch] = {}

    def begin(self, most_bytes: int) -> int:
        """Begin to fetch the first bytes of the first slice. Return their maximum size, or 0 if nothing is fetched.

        Nothing is fetched if that size exceeds `most_bytes`, or if the store answers fast. Never raises an error of a
        store.
        """
        if not self._plan.slices:
            return 0
        size_bytes = min(self._plan.slices[0].slice.length, BYTES_AHEAD)
        if size_bytes > most_bytes:
            return 0
        self._begin(0, 1)
        return size_bytes if self._coming else 0

    def come_to(self, number: int) -> _Fetched | None:
        """Return the first bytes of slice `number` if they were fetched. Begin to fetch those of the next slices.

        None if they were not fetched, or if the fetch failed. None also if the store has failed since, and the fetch is
        not done. Then the caller reads the slice itself.
        """
        self._begin(number + 1, SLICES_AHEAD)
        coming = self._coming.pop(number, None)
        return None if coming is None else self._fetched(coming)

    def _fetched(self, coming: _PendingFetch) -> _Fetched | None:
        if self._stores.has_failed(coming.store_id) and not coming.fetched.done():
            coming.fetched.cancel()
            return None
        try:
            return coming.fetched.result()
        except SparklogError as error:
            self._stores.note_failure(coming.store_id, error)
            return None

    def close(self) -> None:
        """Cancel the fetches whose results were not taken."""
        for fetch in self._coming.values():
            fetch.fetched.cancel()

    def _begin(self, number: int, most: int) -> None:
        slices = self._plan.slices
        size_bytes = 0
        for index in range(number, min(number + most, len(slices))):
            part = slices[index]
            size_bytes += min(part.slice.length, BYTES_AHEAD)
            if size_bytes > BYTES_AHEAD and index > number:
                return
            holders = self._stores.holding(part)
            if not holders:
                return  # the reader reports this once it has read all records before it
            try:
                store = self._stores.get(holders[0])
            except SparklogError:
                continue  # the reader asks the next holder
            if index not in self._coming and store.read_ahead > 0:
                self._coming[index] = _PendingFetch(holders[0], in_background(partial(self._fetch, store, part)))

    def _fetch(self, store: ObjectStore, part: SliceToRead) -> _Fetched:
        key = data_key(part.object.object, self._plan.topic)
        offsets = OffsetRange(self._plan.start, self._plan.end)
        return _Fetched(store, read_first(store, key, part.object, part.slice, offsets, self._columns))


def _read(
    part: SliceToRead,
    offsets: OffsetRange,
    topic: str,
    stores: Stores,
    columns: Sequence[str],
    fetched: _Fetched | None,
) -> Iterator[tuple[Offset, pa.RecordBatch]]:
    """Read the batches of one slice from the first holder that has it intact. Yields (offset after batch, batch)."""

    def read(store: ObjectStore, key: str, at: Offset) -> Iterator[tuple[Offset, pa.RecordBatch]]:
        bodies = fetched.bodies if fetched is not None and fetched.store is store else ()
        rest = OffsetRange(at, offsets.end)
        return read_slice(store, key, part.object, part.slice, rest, topic, columns, bodies)

    return from_first_holder(stores, part, topic, max(offsets.start, part.slice.start), read)


def _lost(plan: RangeToRead, skip_option: str) -> DataLoss:
    shown = ", ".join(f"[{range_.start}, {range_.end})" for range_ in plan.lost)
    return DataLoss(
        f"{plan.topic}-{plan.partition}: records {shown} were lost in an unclean election or given up as damaged; "
        f"{skip_option} continues with the records that are left"
    )


def _plan_again(
    plan: RangeToRead, at: Offset, failed: NoHolderAnswers, replan: Replan, skip_option: str | None
) -> RangeToRead:
    """Plan the rest of the range, from `at`, with the newest state.

    Raises the error of `unreadable` if no new plan can help. If records were removed meanwhile, raises DataLoss; but if
    `skip_option` is None, the new plan skips these records.
    """
    if not failed.may_be_replaced:
        raise unreadable(failed) from failed
    where = f"{plan.topic}-{plan.partition}"
    try:
        again = replan(plan, at)
    except UnknownTopicOrPartition as gone:
        if skip_option is not None:
            raise DataLoss(f"{where} from offset {at} on: the topic was deleted ({gone.message})") from failed
        return replace(plan, start=plan.end, slices=(), lost=())
    if again.start > at and skip_option is not None:
        raise DataLoss(
            f"{where}: records [{at}, {again.start}) were removed by retention or delete-records after this read "
            f"was planned; {skip_option} continues with the records that are left"
        ) from failed
    if any(part.object.number == failed.part.object.number for part in again.slices):
        raise unreadable(failed) from failed
    return again
