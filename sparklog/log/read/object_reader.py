"""Turn slices into rows: fetch the batches of an offset range, verify and decode them, and add the log's own columns.

Only the necessary bytes are read: the index once per object (it is cached), and the batches that overlap the range, in
ranged reads of about 8 MiB. Only the requested columns are decompressed. On a local store large reads are memory maps,
and columns stored uncompressed reach the caller without a copy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Final

import numpy as np
import pyarrow as pa

from sparklog.core.describe.readable import counted, exact_amount
from sparklog.core.errors import Damaged, KeyNotFound, RecordTooLarge
from sparklog.core.row_offsets import RowOffsets, numbered_by_chain, within
from sparklog.core.types import NamedObject, Offset, OffsetRange, Slice
from sparklog.host.fork import after_fork_in_child
from sparklog.log.batch import decodings
from sparklog.log.index import Index, SliceIndex, cut_to_slice, decode_index, rebuild_index
from sparklog.log.kafka_columns import read_schema
from sparklog.log.message_decoder import LARGEST_BATCH_BYTES
from sparklog.log.number_arrays import numpy_of
from sparklog.log.read.kafka_rows import KafkaRows
from sparklog.log.read.ranged_reads import allowed, ranged_reads
from sparklog.log.read.read_ahead import bodies, one_ahead
from sparklog.log.read.read_errors import damage_of
from sparklog.storage.keys import index_key
from sparklog.storage.object_store import ObjectStore

FIRST_READS: Final = 6
CACHED_INDEXES: Final = 1024
ROWS_WITHOUT_BODY: Final = 65_536  # rows per batch if no column needs stored bytes


def read_slice(
    store: ObjectStore,
    object_key: str,
    named: NamedObject,
    slice: Slice,
    offsets: OffsetRange,
    topic: str,
    columns: Sequence[str],
    fetched: Sequence[memoryview] = (),
    most_bytes: int = LARGEST_BATCH_BYTES,
) -> Iterator[tuple[Offset, pa.RecordBatch]]:
    """Read the records of `slice` whose offsets are in `offsets`, ascending. Yields (offset after the batch, batch).

    The batches have `columns` of the read schema, in that order. They are the stored batches, cut at the ends of the
    range. Key, value, headers, and timestamps given by the producer are read from the object; all other columns follow
    from the chain, except the offsets of a compacted slice. `fetched` is the result of `read_first` for the same range
    and columns.

    Raises InvalidInput for unknown columns, KeyNotFound if the object is gone, UnsupportedVersion for another format,
    RecordTooLarge if a batch has more than `most_bytes`, as stored or (the stored columns) before compression, and
    Damaged if bytes differ from what the chain says, or if the index is lost or damaged and the object, from which it
    would be rebuilt, is larger than `most_bytes`. Batches yielded before an error are right.
    """
    view = KafkaRows(read_schema(columns), slice, topic)
    wanted = within(slice, offsets)
    if wanted is None:
        return
    if view.needs_no_body:
        for rows in numbered_by_chain(wanted, ROWS_WITHOUT_BODY):
            yield rows.end, view.batch(rows, None)
        return
    with damage_of(slice.start, slice.end):
        index = index_of_slice(store, object_key, named, slice, most_bytes)
    begin, stop = index.offsets.batches_in(wanted)
    stored = view.stored_columns
    for rows, batch in read_batches(store, object_key, index, begin, stop, stored, fetched, most_bytes):
        low, high = rows.rows_in(wanted)
        if low == high:
            continue  # the range lies in a gap between two rows
        if high - low < batch.num_rows:
            rows, batch = rows.cut(low, high), batch.slice(low, high - low)
        yield rows.end, view.batch(rows, batch)


def read_first(
    store: ObjectStore,
    object_key: str,
    named: NamedObject,
    slice: Slice,
    offsets: OffsetRange,
    columns: Sequence[str],
    most_bytes: int = LARGEST_BATCH_BYTES,
) -> list[memoryview]:
    """Return the bytes of the first reads of `read_slice`, at most `FIRST_READS`. Also caches the index."""
    wanted = within(slice, offsets)
    if wanted is None or KafkaRows(read_schema(columns), slice, "").needs_no_body:
        return []
    index = index_of_slice(store, object_key, named, slice, most_bytes)
    reads = allowed(ranged_reads(index.batches, *index.offsets.batches_in(wanted)), most_bytes)
    return store.get_ranges(object_key, [(read.start, read.end) for read in reads[:FIRST_READS]])


# ---- the index ------------------------------------------------------------------------------------


_CacheKey = tuple[str, str, int]


class _IndexCache:
    """The most recently used indexes, by store, object key and the object's CRC32C.

    They never become stale, because objects and indexes never change. If several threads want the same index at the
    same time, one reads it and the others wait.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._indexes: OrderedDict[_CacheKey, Index] = OrderedDict()
        self._coming: dict[_CacheKey, Future[Index | None]] = {}  # None: the reading thread was interrupted

    def get(self, key: _CacheKey, read: Callable[[], Index]) -> Index:
        """Return the index. If it is not cached, wait for a thread that is reading it, or read it by calling `read`.

        Raises the error of `read`, in every thread that waits for it.
        """
        while True:
            with self._lock:
                index = self._indexes.get(key)
                if index is not None:
                    self._indexes.move_to_end(key)
                    return index
                coming = self._coming.get(key)
                if coming is None:
                    own: Future[Index | None] = Future()
                    self._coming[key] = own
                    break
            index = coming.result()
            if index is not None:
                return index
        try:
            index = read()
        except Exception as error:
            own.set_exception(error)
            raise
        else:
            self.put(key, index)
            own.set_result(index)
            return index
        finally:
            with self._lock:
                del self._coming[key]
            if not own.done():
                own.set_result(None)

    def put(self, key: _CacheKey, index: Index) -> None:
        with self._lock:
            self._indexes[key] = index
            if len(self._indexes) > self._capacity:
                self._indexes.popitem(last=False)

    def forget_threads(self) -> None:
        """Replace the lock in a forked child, and forget reads in progress: the parent's threads do not exist there."""
        self._lock, self._coming = Lock(), {}


_cache = _IndexCache(CACHED_INDEXES)
after_fork_in_child(lambda: _cache.forget_threads())


def read_index(store: ObjectStore, object_key: str, named: NamedObject, most_bytes: int = LARGEST_BATCH_BYTES) -> Index:
    """Return the index of an object. If it is missing or damaged, it is rebuilt in memory from the whole object.

    Raises Damaged if the object is damaged too or larger than `most_bytes`, KeyNotFound if it is gone too,
    RecordTooLarge if the index has more than `most_bytes`, and UnsupportedVersion for another format.
    """
    key, object_ = index_key(object_key), named.object
    if object_.index_size_bytes > most_bytes:
        raise RecordTooLarge(_too_large(f"index {key}", most_bytes, object_.index_size_bytes))
    cached = (store.url, object_key, object_.crc32c)
    try:
        return _cache.get(cached, lambda: decode_index(key, store.get(key), object_))
    except (KeyNotFound, Damaged) as error:
        if object_.size_bytes > most_bytes:
            whole = _too_large(f"object {object_key}, to rebuild the index", most_bytes, object_.size_bytes)
            raise Damaged(f"{error}; {whole}") from error
        return _cache.get(cached, lambda: rebuild_index(object_key, store.get(object_key), object_))


def _too_large(what: str, most_bytes: int, size_bytes: int) -> str:
    return f"{what}: wanted at most {exact_amount(most_bytes)}, found {exact_amount(size_bytes)}"


def keep_index(store: ObjectStore, object_key: str, named: NamedObject, index: Index) -> None:
    """Cache `index`, read from another store, for reading the object on `store`. All stores have the same index."""
    _cache.put((store.url, object_key, named.object.crc32c), index)


def index_of_slice(
    store: ObjectStore, object_key: str, named: NamedObject, slice: Slice, most_bytes: int = LARGEST_BATCH_BYTES
) -> SliceIndex:
    """Return the part of the object's index for one slice. Raises what `read_index` and `cut_to_slice` raise."""
    return cut_to_slice(read_index(store, object_key, named, most_bytes), slice, object_key)


# ---- the batches ----------------------------------------------------------------------------------


def read_batches(
    store: ObjectStore,
    object_key: str,
    index: SliceIndex,
    begin: int,
    stop: int,
    columns: Sequence[str],
    fetched: Sequence[memoryview] = (),
    most_bytes: int = LARGEST_BATCH_BYTES,
) -> Iterator[tuple[RowOffsets, pa.RecordBatch]]:
    """Read batches [begin, stop) of a slice, in ranged reads of about 8 MiB. Yields (offsets of the rows, batch).

    The batches have `columns`, and the column of offsets if the slice is compacted. `columns` may be empty only for a
    compacted slice. `fetched`: the bytes of the first of these reads, if they were read before. Raises RecordTooLarge
    if a batch has more than `most_bytes`, as stored or before compression. At most one batch is decoded before it is
    needed.
    """
    schema = index.batches.object_schema
    decoded = [*columns, schema.offset] if schema.offset is not None and index.offsets.are_stored else columns
    reads = ranged_reads(index.batches, begin, stop)
    starts, ends = index.offsets.starts, index.offsets.ends
    to_fetch = allowed(reads, most_bytes)
    coming = bodies(store, object_key, [(read.start, read.end) for read in to_fetch], fetched)
    for number, read in enumerate(reads):
        with damage_of(int(starts[read.begin]), int(ends[read.stop - 1])):
            if number == len(to_fetch):
                batch_at = f"record batch at byte {read.start} of {object_key}"
                raise RecordTooLarge(_too_large(batch_at, most_bytes, read.end - read.start))
            body = next(coming)
        rows = np.s_[read.begin : read.stop]
        lengths, crcs, records = (
            column[rows].tolist() for column in (index.batches.length, index.batches.crc32c, index.batches.records)
        )
        tasks = decodings(object_key, read.start, pa.py_buffer(body), lengths, crcs, decoded, schema, most_bytes)
        batches = one_ahead(tasks) if len(lengths) > 1 else (task() for task in tasks)
        for at, wanted in enumerate(records, start=read.begin):
            with damage_of(int(starts[at]), int(ends[at])):
                batch = next(batches)
                if batch.num_rows != wanted:
                    raise Damaged(
                        f"record batch at byte {index.batches.position[at]} of {object_key}: "
                        f"wanted {counted(wanted, 'record')} as its index says, found {batch.num_rows}"
                    )
                offsets = _offsets_of(index, at, batch, object_key)
            yield offsets, batch


def _offsets_of(index: SliceIndex, at: int, batch: pa.RecordBatch, object_key: str) -> RowOffsets:
    if not index.offsets.are_stored:
        return index.offsets.of_batch(at)
    offsets = index.offsets.of_column(at, numpy_of(batch.column(index.batches.object_schema.offset)))
    if offsets is None:
        raise Damaged(
            f"record batch at byte {index.batches.position[at]} of {object_key}: wanted ascending offsets from "
            f"{index.offsets.starts[at]} to {index.offsets.ends[at] - 1} as its index says, found others"
        )
    return offsets
