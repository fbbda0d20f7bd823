"""Read an offset range slice by slice, and plan again if an object is gone.

A plan may be so old that its objects were deleted. If an object is missing or damaged, the next holder is tried. If no
holder has it whole, the rest of the range is planned again with the newest state. If the new plan names another object,
that object is read. If the records were retired meanwhile, `fail_on_data_loss` decides. If the new plan names the same
object again, the read fails with DATA_LOSS, or with the error of a holder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from msgspec.structs import replace

from sparklog.core.errors import DataLoss, UnknownTopicOrPartition
from sparklog.core.reading.plan import RangeToRead, SliceToRead
from sparklog.core.types import Offset, OffsetRange
from sparklog.log.cluster_stores import Stores
from sparklog.log.kafka_columns import read_schema
from sparklog.log.message_decoder import LARGEST_BATCH_BYTES
from sparklog.log.read.first_holder import NoHolderAnswers, from_first_holder
from sparklog.log.read.object_reader import read_slice
from sparklog.log.read.read_errors import unreadable
from sparklog.log.read.slices_ahead import Fetched, SlicesAhead
from sparklog.storage.object_store import ObjectStore

Replan = Callable[[RangeToRead, Offset], RangeToRead]  # (old plan, offset) -> a new plan of [offset, old end)


def scan(
    plan: RangeToRead,
    stores: Stores,
    columns: Sequence[str],
    replan: Replan,
    *,
    fail_on_data_loss: bool = True,
    skip_option: str = "fail_on_data_loss=False",
    ahead: SlicesAhead | None = None,
    most_batch_bytes: int = LARGEST_BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the plan in offset order, as batches of `columns` of the read schema.

    `replan` plans the rest of the range with the newest state; the new plan begins later if the log start has risen.
    `skip_option`: the option that the message of a DataLoss advises the user to set. `ahead`: the SlicesAhead of this
    plan, if the caller has begun to fetch its first slice (default: a new one).

    If records were removed or given up, raises DataLoss if `fail_on_data_loss` is true, and skips them otherwise. If
    the chain still names records but no holder can provide them, raises DataLoss (all holders lack the object) or the
    error of a holder: Damaged, StoreUnavailable, StoreAccessDenied. `fail_on_data_loss` does not change that.

    Raises InvalidInput for unknown columns, UnsupportedVersion for an object of another format, and RecordTooLarge if a
    batch has more than `most_batch_bytes`, stored or uncompressed.
    """
    read_schema(columns)  # no holder can help if the columns are wrong
    at = plan.start
    while at < plan.end:
        if plan.lost and fail_on_data_loss:
            raise _lost(plan, skip_option)
        failed: NoHolderAnswers | None = None
        with closing(ahead or SlicesAhead(plan, stores, columns, most_batch_bytes)) as slices_ahead:
            for number, part in enumerate(plan.slices):
                fetched = slices_ahead.come_to(number)
                try:
                    for next_offset, batch in _read(
                        part, OffsetRange(at, plan.end), plan.topic, stores, columns, fetched, most_batch_bytes
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


def _read(
    part: SliceToRead,
    offsets: OffsetRange,
    topic: str,
    stores: Stores,
    columns: Sequence[str],
    fetched: Fetched | None,
    most_batch_bytes: int,
) -> Iterator[tuple[Offset, pa.RecordBatch]]:
    """Read the batches of one slice from the first holder that has it intact. Yields (offset after batch, batch)."""

    def read(store: ObjectStore, key: str, at: Offset) -> Iterator[tuple[Offset, pa.RecordBatch]]:
        bodies = fetched.bodies if fetched is not None and fetched.store is store else ()
        rest = OffsetRange(at, offsets.end)
        return read_slice(store, key, part.object, part.slice, rest, topic, columns, bodies, most_batch_bytes)

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

    If no new plan can help, raises the error that `read_errors.unreadable` returns. If records were removed meanwhile,
    or the topic was deleted, raises DataLoss, unless `skip_option` is None: then the new plan skips these records.
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
