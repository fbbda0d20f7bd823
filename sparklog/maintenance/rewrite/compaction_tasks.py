"""The tasks of a compaction: read keys, and rewrite the segments of a stretch with the records that are left.

Between the two kinds of task is a shuffle (`KeyShuffle`): it finds the last offset of each key, and hands each stretch
the offsets that are left in it. Only keys and offsets go through the shuffle. Values go from a store through one task
to the stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.core.errors import SparklogError
from sparklog.core.reading.plan import RangeToRead, SliceToRead
from sparklog.core.row_offsets import Int64Array
from sparklog.core.types import Offset, StoreId, UploadId
from sparklog.host.dice import new_id
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.read.scan import scan
from sparklog.log.rewrite.segment_compaction import compact
from sparklog.log.write.segments_writer import Rewritten, SegmentTarget
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.maintenance.rewrite.swapping import without_stores

# One row per record. `mark` is 2 * offset, plus 1 for a tombstone (no value). For each key of a log, the row with the
# greatest mark is left. `stretch` rises with the offset, so it is the greatest, too. Records without a key have
# -1 - stretch as `log`: they are only counted.
KEYS: Final = pa.schema([("log", pa.int32()), ("key", pa.binary()), ("stretch", pa.int32()), ("mark", pa.int64())])


class KeyShuffle(Protocol):
    """The port for the shuffle of keys. Its adapter is `spark/maintain/key_shuffle.py`."""

    def run(self, reads: Sequence[bytes], rewrites: Sequence[bytes]) -> list[bytes]:
        """Run `read_keys` for each of `reads`, then `rewrite_stretch` for each of `rewrites`.

        `rewrite_stretch` gets the records that are left in its stretch (LeftRecords), which follow from all keys read.
        The number of a stretch is its index in `rewrites`. Returns the results of `rewrite_stretch` in this order.
        Raises SparklogError if a read fails, or if the tasks could not be run.
        """
        ...


class KeysOrder(msgspec.Struct, frozen=True):
    """The ranges whose keys one task reads, each as (log, stretch, range).

    `log` is the number of the partition in this shuffle, `stretch` the number of the stretch.
    """

    addresses: StoreAddresses
    ranges: tuple[tuple[int, int, RangeToRead], ...]


class RewriteOrder(msgspec.Struct, frozen=True):
    """A stretch to rewrite: `slices` with `records` records in total.

    Tombstones below `tombstones_below` are dropped (None: all stay). `position` is the cleaner's: no compaction has
    reached the records from there on yet. `incarnations` are those with which the stores are registered.
    `lag_time_max_ms`: how long the task may wait for one store in total.
    """

    addresses: StoreAddresses
    slices: tuple[SliceToRead, ...]
    records: int
    target: SegmentTarget
    position: Offset
    tombstones_below: Offset | None
    incarnations: dict[StoreId, str]
    lag_time_max_ms: int


class LeftRecords(msgspec.Struct, frozen=True):
    """The records with a key that are left in a stretch. Each of the ascending `marks` stands for one of them.

    A mark is 2 * offset, plus 1 for a tombstone. `keyless`: the number of records without a key, which are dropped; the
    last of them is at `keyless_at`.
    """

    marks: Int64Array
    keyless: int = 0
    keyless_at: Offset | None = None


class StretchOutcome(msgspec.Struct, frozen=True):
    """The outcome of the rewrite of one stretch.

    It failed (`error`), or its kept records were uploaded (`rewritten`), or it stays as it is (`unchanged`), or it
    keeps no record (none of these fields is set). `kept` is the number of records kept; `superseded`, `tombstones` and
    `keyless` are the numbers of records dropped, by reason.

    `is_spare`: the upload has a single record, which could be dropped. The upload is used only if no other stretch
    between the same two gaps of the partition keeps a record, because a slice needs at least one. `passes_tombstones`:
    some of the kept tombstones are at or after the cleaner's position, so this is the first compaction that reached and
    kept them.
    """

    rewritten: Rewritten | None = None
    unchanged: bool = False
    is_spare: bool = False
    passes_tombstones: bool = False
    kept: int = 0
    superseded: int = 0
    tombstones: int = 0
    keyless: int = 0
    error: str = ""


def read_keys(payload: bytes) -> Iterator[pa.RecordBatch]:
    """Task: read the keys of a KeysOrder, as batches of `KEYS`.

    Raises DataLoss, Damaged, StoreUnavailable or StoreAccessDenied if records can't be read.
    """
    order = msgspec.msgpack.decode(payload, type=KeysOrder)
    stores = Stores(order.addresses)
    for log, stretch, plan in order.ranges:
        for rows in scan(plan, stores, ["key", "value", "offset"], _as_planned):
            keyless = rows.column("key").is_null()
            logs = pc.if_else(keyless, pa.scalar(-1 - stretch, pa.int32()), pa.scalar(log, pa.int32()))
            marks = pc.add(pc.multiply(rows.column("offset"), 2), rows.column("value").is_null().cast(pa.int64()))
            stretches = pa.repeat(pa.scalar(stretch, pa.int32()), rows.num_rows)
            yield pa.RecordBatch.from_arrays([logs, rows.column("key"), stretches, marks], schema=KEYS)


def rewrite_stretch(payload: bytes, left: LeftRecords) -> bytes:
    """Task: rewrite the stretch of a RewriteOrder with the records in `left`, and return a StretchOutcome.

    Tombstones below the order's `tombstones_below` are dropped even if they are in `left`.
    """
    order = msgspec.msgpack.decode(payload, type=RewriteOrder)
    offsets, is_tombstone = left.marks >> 1, (left.marks & 1).astype(np.bool_)
    expired = is_tombstone & (offsets < (order.tombstones_below or 0))
    kept = offsets[~expired]
    outcome = StretchOutcome(
        passes_tombstones=bool((is_tombstone & ~expired & (offsets >= order.position)).any()),
        kept=len(kept),
        superseded=order.records - len(offsets) - left.keyless,
        tombstones=int(expired.sum()),
        keyless=left.keyless,
    )
    if len(kept) == order.records and len(order.slices) == 1:
        return msgspec.msgpack.encode(msgspec.structs.replace(outcome, unchanged=True))
    if not len(kept):
        # The log has no older value of a tombstone's key any more, so a tombstone can stay without harm. So can a
        # record without a key. A superseded record can't: its tombstone may be gone.
        spare = [int(offsets[-1])] if len(offsets) else [] if left.keyless_at is None else [left.keyless_at]
        if not spare:
            return msgspec.msgpack.encode(outcome)
        kept, outcome = np.array(spare, np.int64), msgspec.structs.replace(outcome, is_spare=True)
    return msgspec.msgpack.encode(_uploaded(order, kept, outcome))


def rewrite_anyway(payload: bytes) -> bytes:
    """Task: rewrite a stretch with all its records or only its last one, so that its slices can cover neighbours.

    The payload is (RewriteOrder, range of the stretch, True for only the last record). Returns a StretchOutcome.
    """
    order, plan, only_last = msgspec.msgpack.decode(payload, type=tuple[RewriteOrder, RangeToRead, bool])
    try:
        offsets = [batch.column(0).to_numpy() for batch in scan(plan, Stores(order.addresses), ["offset"], _as_planned)]
    except SparklogError as error:
        return msgspec.msgpack.encode(StretchOutcome(error=str(error)))
    kept = np.concatenate(offsets)[-1 if only_last else 0 :]
    return msgspec.msgpack.encode(_uploaded(order, kept, StretchOutcome(kept=len(kept))))


def _uploaded(order: RewriteOrder, kept: Int64Array, outcome: StretchOutcome) -> StretchOutcome:
    """Upload the kept records, and return `outcome` with the upload, or a new outcome with the error.

    A failure is returned and not raised, so that it stops no other stretch.
    """
    stores = Stores(order.addresses)
    try:
        with StoreLanes(stores, order.incarnations, order.lag_time_max_ms) as lanes:
            rewritten = compact(order.slices, kept, order.target, stores, lanes, lambda: UploadId(new_id()))
    except Exception as error:
        return StretchOutcome(error=str(error) or repr(error))
    lost = lanes.of_another_incarnation()
    held = without_stores(rewritten, lost)
    if held is None:
        return StretchOutcome(error=f"its segments were on {', '.join(sorted(lost))} alone, which lost them")
    return msgspec.structs.replace(outcome, rewritten=held)


def _as_planned(plan: RangeToRead, at: Offset) -> RangeToRead:
    """Return `plan` itself instead of a new plan. So the read fails if planned segments were replaced.

    Reading the new segments would be in vain, because the swap would be refused.
    """
    return plan
