"""The index of a data object: one row per record batch, stored beside the object as an Arrow IPC file.

The index holds nothing that the object does not, so a missing or damaged one can be rebuilt exactly. Its columns are
those of `Index`. The schema's metadata has the format number. Columns may be added under the same number (for example
minima and maxima per column); existing columns keep their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparklog.core.errors import Damaged, UnsupportedVersion
from sparklog.core.numbering import SliceOffsets, is_dense
from sparklog.core.readable import counted, exact_amount
from sparklog.core.types import NewObject, Slice
from sparklog.log.batch import PARTITION_KEY, crc32c, timestamp_bounds, verify
from sparklog.log.ipc_file import FILE_START
from sparklog.log.records_schema import OBJECT_FORMAT, OBJECT_FORMAT_KEY

INDEX_FORMAT: Final = b"1"
INDEX_FORMAT_KEY: Final = b"sparklog.index"

INDEX_SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("first_record", pa.int64(), nullable=False),
        pa.field("records", pa.int32(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        # This column comes before the timestamps: directly after the last bytes of its batch, a batch's checksum would
        # cancel them out of the checksum of the index.
        pa.field("crc32c", pa.uint32(), nullable=False),
        pa.field("min_timestamp_us", pa.int64(), nullable=False),
        pa.field("max_timestamp_us", pa.int64(), nullable=False),
    ],
    metadata={INDEX_FORMAT_KEY: INDEX_FORMAT},
)


# partition, records, position, length, smallest and largest timestamp in microseconds
BatchRow = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The place of each batch of an object: arrays of equal length, ordered by position.

    `first_record` counts the records of the same partition before the batch in this object (a partition's batches are
    contiguous). Batch i is bytes [position, position + length), with CRC32C `crc32c`. Both timestamp bounds are
    inclusive.
    """

    partition: npt.NDArray[np.int32]
    first_record: npt.NDArray[np.int64]
    records: npt.NDArray[np.int32]
    position: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    crc32c: npt.NDArray[np.uint32]
    min_timestamp_us: npt.NDArray[np.int64]
    max_timestamp_us: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.position)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Index):
            return NotImplemented
        return all(np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(Index))

    __hash__ = None  # type: ignore[assignment]


def index_of(rows: Sequence[BatchRow], crcs: Sequence[int]) -> Index:
    """The index of an object with these batches and CRC32Cs. The batches of a partition must be contiguous."""
    table: npt.NDArray[Any] = np.array(rows, dtype=np.int64).reshape(len(rows), 6)
    partition, records, position, length, low, high = (np.ascontiguousarray(column) for column in table.T)
    before = np.cumsum(records) - records
    # Records before the first batch of a partition's run belong to other partitions.
    starts_run = np.ones(len(rows), dtype=bool)
    starts_run[1:] = partition[1:] != partition[:-1]
    run = np.cumsum(starts_run) - 1
    first_record = before - before[starts_run][run] if len(rows) else before
    return Index(
        partition.astype(np.int32),
        first_record,
        records.astype(np.int32),
        position,
        length,
        np.array(crcs, dtype=np.uint32),
        low,
        high,
    )


@dataclass(frozen=True, slots=True, eq=False)
class SliceIndex:
    """The rows of an object's index for the batches of one slice, and the offsets in these batches."""

    batches: Index
    offsets: SliceOffsets


def cut_to_slice(index: Index, slice: Slice, object_key: str) -> SliceIndex:
    """The part of an object's index that belongs to one slice.

    Raises Damaged if the index has no such slice, UnsupportedVersion for a compacted slice.
    """
    if not is_dense(slice):
        raise UnsupportedVersion(
            f"slice [{slice.start}, {slice.end}) in {object_key} holds {counted(slice.records, 'record')}: "
            "this version of sparklog does not read compacted segments"
        )
    rows = np.s_[slice.first_batch : slice.first_batch + slice.batches]
    batches = Index(**{name: getattr(index, name)[rows] for name in Index.__slots__})
    if len(batches) == slice.batches and slice.batches > 0:
        records = int(batches.records.sum())
        begin, end = int(batches.position[0]), int(batches.position[-1] + batches.length[-1])
        if (records, begin, end) == (slice.records, slice.position, slice.position + slice.length):
            return SliceIndex(batches, SliceOffsets.of(slice, batches.records))
    raise Damaged(
        f"index of {object_key}: wanted {counted(slice.batches, 'batch')} from number {slice.first_batch} on, with "
        f"{counted(slice.records, 'record')} in bytes [{slice.position}, {slice.position + slice.length}); found others"
    )


def encode_index(index: Index) -> pa.Buffer:
    """The bytes of the index object: an Arrow IPC file with one uncompressed batch."""
    arrays = [pa.array(getattr(index, name)) for name in INDEX_SCHEMA.names]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, INDEX_SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=INDEX_SCHEMA))
    return sink.getvalue()


def decode_index(key: str, body: memoryview, named: NewObject) -> Index:
    """The index in `body`, which was read from `key` and belongs to object `named`.

    Raises Damaged if the size or CRC32C differs from the chain's, UnsupportedVersion for another format.
    """
    buffer = pa.py_buffer(body)
    if buffer.size != named.index_size_bytes:
        raise Damaged(f"index {key}: wanted {counted(named.index_size_bytes, 'byte')}, found {buffer.size:,}")
    verify(buffer, named.index_crc32c, "index", key, 0)
    reader = pa.ipc.open_file(buffer)
    found = (reader.schema.metadata or {}).get(INDEX_FORMAT_KEY)
    if found != INDEX_FORMAT:
        raise UnsupportedVersion(f"index {key}: wanted format {INDEX_FORMAT.decode()}, found {found!r}")
    rows = reader.get_batch(0)
    return Index(**{name: rows.column(name).to_numpy() for name in INDEX_SCHEMA.names})


def rebuild_index(key: str, body: memoryview, named: NewObject) -> Index:
    """Rebuild the index from the whole object `body`, which was read from `key`. It equals the one written with it.

    Only verified bytes are used. Raises Damaged (key, wanted, found) if the size or CRC32C of the object differs from
    the chain's, UnsupportedVersion for another format.
    """
    buffer = pa.py_buffer(body)
    if buffer.size != named.size_bytes:
        raise Damaged(f"object {key}: wanted {exact_amount(named.size_bytes)}, found {exact_amount(buffer.size)}")
    verify(buffer, named.crc32c, "object", key, 0)
    source = pa.BufferReader(buffer)
    source.seek(len(FILE_START))
    stream = pa.ipc.open_stream(source)
    found = (stream.schema.metadata or {}).get(OBJECT_FORMAT_KEY)
    if found != OBJECT_FORMAT:
        raise UnsupportedVersion(f"object {key}: wanted format {OBJECT_FORMAT.decode()}, found {found!r}")
    rows: list[BatchRow] = []
    crcs: list[int] = []
    while True:
        start = source.tell()
        try:
            batch, metadata = stream.read_next_batch_with_custom_metadata()
        except StopIteration:
            return index_of(rows, crcs)
        length = source.tell() - start
        rows.append((int(metadata[PARTITION_KEY]), batch.num_rows, start, length, *timestamp_bounds(batch)))
        crcs.append(crc32c(buffer.slice(start, length)))
