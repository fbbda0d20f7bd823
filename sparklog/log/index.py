"""The index of a data object: one row per record batch, stored beside the object as an Arrow IPC file.

Everything in the index follows from the object, so a missing or damaged index can be rebuilt exactly. It says to which
topic and partition each batch belongs. `cut_to_slice` compares this with the chain before any batch is read, because
the chain has only what the author of a command claimed.

Its columns are those of `Index`. The schema's metadata has the format number. Columns may be added under the same
number (for example minima and maxima per column); existing columns keep their meaning.

The index of a compacted segment, or of another object that stores offsets, has its own format number and two more
columns: the offsets of the first and the last record of each batch. So the batch that has an offset is found without
reading any batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparklog.core.describe.readable import counted, exact_amount
from sparklog.core.errors import Damaged, UnsupportedVersion
from sparklog.core.row_offsets import Int64Array, SliceOffsets, is_dense
from sparklog.core.types import NewObject, Slice
from sparklog.log.batch import crc32c, offset_bounds, place_of, timestamp_bounds, verify
from sparklog.log.ipc_file import END_OF_STREAM, FILE_START
from sparklog.log.message_decoder import LARGEST_TIMES_BYTES, MessageDecoder
from sparklog.log.message_metadata import Malformed, batch_numbers, schema_metadata
from sparklog.log.number_arrays import numpy_of
from sparklog.log.stored_schema import OBJECT_FORMAT_KEY, RAW, RAW_WITH_OFFSETS, STORED_SCHEMAS, StoredSchema

T = TypeVar("T")
INDEX_FORMAT_KEY: Final = b"sparklog.index"

INDEX_SCHEMA: Final = pa.schema(
    [
        pa.field("topic_id", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("first_record", pa.int64(), nullable=False),
        pa.field("records", pa.int32(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        # This column comes before the timestamps: a batch's checksum directly after the batch's last bytes would
        # cancel them out of the checksum of the index.
        pa.field("crc32c", pa.uint32(), nullable=False),
        pa.field("min_timestamp_us", pa.int64(), nullable=False),
        pa.field("max_timestamp_us", pa.int64(), nullable=False),
    ],
    metadata={INDEX_FORMAT_KEY: b"3"},
)
COMPACTED_INDEX_SCHEMA: Final = pa.schema(
    [
        *INDEX_SCHEMA,
        pa.field("base_offset", pa.int64(), nullable=False),
        pa.field("last_offset", pa.int64(), nullable=False),
    ],
    metadata={INDEX_FORMAT_KEY: b"4"},
)
_INDEX_SCHEMAS: Final = {b"3": INDEX_SCHEMA, b"4": COMPACTED_INDEX_SCHEMA}
_DECODERS: Final = {format_: MessageDecoder(schema, schema.names) for format_, schema in _INDEX_SCHEMAS.items()}


# topic id, partition, records, position, length, smallest and largest timestamp in microseconds
BatchRow = tuple[int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The batches of an object, with their positions and bounds: arrays of equal length, ordered by position.

    Batch i is bytes [position, position + length), with CRC32C `crc32c`. `first_record`: the number of records of the
    same partition before the batch in this object, in which the batches of a partition are contiguous. Bounds of
    timestamps and offsets are inclusive. Only a compacted segment has offsets.
    """

    topic_id: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]
    first_record: npt.NDArray[np.int64]
    records: npt.NDArray[np.int32]
    position: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    crc32c: npt.NDArray[np.uint32]
    min_timestamp_us: npt.NDArray[np.int64]
    max_timestamp_us: npt.NDArray[np.int64]
    base_offset: Int64Array | None = None
    last_offset: Int64Array | None = None

    def __len__(self) -> int:
        return len(self.position)

    @property
    def object_schema(self) -> StoredSchema:
        """The schema of the object."""
        return RAW if self.base_offset is None else RAW_WITH_OFFSETS

    def rows(self, begin: int, stop: int) -> Index:
        """The part of the index about batches [begin, stop)."""
        columns: dict[str, Any] = {name: getattr(self, name) for name in Index.__slots__}
        return Index(**{name: column[begin:stop] for name, column in columns.items() if column is not None})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Index):
            return NotImplemented
        return all(np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(Index))

    __hash__ = None  # type: ignore[assignment]


def index_of(rows: Sequence[BatchRow], crcs: Sequence[int], offsets: Sequence[tuple[int, int]] | None = None) -> Index:
    """Build the index of an object with these batches and CRC32Cs. The batches of a partition must be contiguous.

    `offsets`: the first and the last offset of each batch, only for a compacted segment.
    """
    table: npt.NDArray[Any] = np.array(rows, dtype=np.int64).reshape(len(rows), 7)
    topic_id, partition, records, position, length, low, high = (np.ascontiguousarray(column) for column in table.T)
    before = np.cumsum(records) - records
    # Records before the first batch of a partition's run belong to other partitions.
    starts_run = np.ones(len(rows), dtype=bool)
    starts_run[1:] = partition[1:] != partition[:-1]
    run = np.cumsum(starts_run) - 1
    first_record = before - before[starts_run][run] if len(rows) else before
    return Index(
        topic_id.astype(np.int32),
        partition.astype(np.int32),
        first_record,
        records.astype(np.int32),
        position,
        length,
        np.array(crcs, dtype=np.uint32),
        low,
        high,
        *(() if offsets is None else np.array(offsets, dtype=np.int64).reshape(len(rows), 2).T),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SliceIndex:
    """The rows of an object's index for the batches of one slice, and the offsets of the records in these batches."""

    batches: Index
    offsets: SliceOffsets


def cut_to_slice(index: Index, slice: Slice, object_key: str) -> SliceIndex:
    """Return the part of an object's index that belongs to one slice.

    Raises Damaged if the index does not match the slice, or says that the batches are of another topic or partition.
    """
    batches = index.rows(slice.first_batch, slice.first_batch + slice.batches)
    foreign = (batches.topic_id != slice.topic_id) | (batches.partition != slice.partition)
    if foreign.any():
        at = int(foreign.argmax())
        raise Damaged(
            f"index of {object_key}: wanted batches of partition {slice.partition} of topic id {slice.topic_id}, as "
            f"the chain says, found one of partition {batches.partition[at]} of topic id {batches.topic_id[at]}"
        )
    if len(batches) == slice.batches and slice.batches > 0:
        records = int(batches.records.sum())
        begin, end = int(batches.position[0]), int(batches.position[-1] + batches.length[-1])
        if (records, begin, end) == (slice.records, slice.position, slice.position + slice.length):
            return SliceIndex(batches, _offsets_of(batches, slice, object_key))
    raise Damaged(
        f"index of {object_key}: wanted {counted(slice.batches, 'batch')} from number {slice.first_batch} on, with "
        f"{counted(slice.records, 'record')} in bytes [{slice.position}, {slice.position + slice.length}); found others"
    )


def _offsets_of(batches: Index, slice: Slice, object_key: str) -> SliceOffsets:
    if is_dense(slice):
        return SliceOffsets.of(slice, batches.records)
    present = "no offsets"
    if batches.base_offset is not None and batches.last_offset is not None:
        offsets = SliceOffsets.stored(slice, batches.records, batches.base_offset, batches.last_offset)
        if offsets is not None:
            return offsets
        present = f"batches from {batches.base_offset[0]} to {batches.last_offset[-1]}"
    raise Damaged(
        f"index of {object_key}: wanted the offsets of {counted(slice.records, 'record')}, ascending in "
        f"[{slice.start}, {slice.end}), found {present}"
    )


def encode_index(index: Index) -> pa.Buffer:
    """Return the index as the bytes of its object: an Arrow IPC file with one uncompressed batch."""
    schema = INDEX_SCHEMA if index.base_offset is None else COMPACTED_INDEX_SCHEMA
    arrays = [pa.array(getattr(index, name)) for name in schema.names]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sink.getvalue()


def decode_index(key: str, body: memoryview, named: NewObject) -> Index:
    """Decode the index in `body`, which was read from `key` and belongs to object `named`.

    Raises Damaged if the size or CRC32C differs from the chain's or the content can't be right, and UnsupportedVersion
    for another format.
    """
    buffer = pa.py_buffer(body)
    if buffer.size != named.index_size_bytes:
        raise Damaged(f"index {key}: wanted {counted(named.index_size_bytes, 'byte')}, found {buffer.size:,}")
    verify(buffer, named.index_crc32c, "index", key, 0)
    try:
        decoder, rows = _opened("index", key, buffer, INDEX_FORMAT_KEY, _DECODERS)
        if batch_numbers(rows).codec is not None:  # which might claim any length
            raise Malformed("a compressed index")
        columns = decoder.arrays(rows)
    except Malformed as error:
        raise Damaged(f"index {key}: its checksum is right, but it can't be decoded: {error}") from error
    index = Index(*map(numpy_of, columns))
    _check_places(index, key)
    return index


def _check_places(index: Index, key: str) -> None:
    """Raise Damaged unless each batch has records and bytes, and begins where the one before it ends."""
    ends = index.position + index.length
    is_full = (index.records > 0).all() and (index.length > 0).all()
    if not is_full or (index.position < 0).any() or (ends < 0).any() or (index.position[1:] != ends[:-1]).any():
        raise Damaged(
            f"index {key}: its checksum is right, but wanted batches one after the other, none empty; found others"
        )


def rebuild_index(key: str, body: memoryview, named: NewObject) -> Index:
    """Rebuild the index from `body`, the whole object, read from `key`. It equals the index written with the object.

    Raises Damaged (with the wanted and the actual value) if the size or CRC32C of the object differs from the chain's,
    and UnsupportedVersion for another format.
    """
    buffer = pa.py_buffer(body)
    if buffer.size != named.size_bytes:
        raise Damaged(f"object {key}: wanted {exact_amount(named.size_bytes)}, found {exact_amount(buffer.size)}")
    verify(buffer, named.crc32c, "object", key, 0)
    try:
        return _index_of_object(key, buffer)
    except Malformed as error:
        raise Damaged(f"object {key}: its checksum is right, but it can't be decoded: {error}") from error


def _index_of_object(key: str, body: pa.Buffer) -> Index:
    schema, rest = _opened("object", key, body, OBJECT_FORMAT_KEY, STORED_SCHEMAS)
    columns = [schema.timestamp] if schema.offset is None else [schema.timestamp, schema.offset]
    decoder = MessageDecoder(schema.arrow, columns, LARGEST_TIMES_BYTES)
    rows: list[BatchRow] = []
    crcs: list[int] = []
    offsets: list[tuple[int, int]] = []
    while rest.size < len(END_OF_STREAM) or rest.slice(0, len(END_OF_STREAM)).to_pybytes() != END_OF_STREAM:
        numbers = batch_numbers(rest)
        length = numbers.body_start + numbers.body_bytes
        message = rest.slice(0, length)
        batch = decoder.decode(message)
        if not batch.num_rows:
            raise Malformed("a batch without records")
        place, position = place_of(message), body.size - rest.size
        times = timestamp_bounds(batch.column(schema.timestamp))
        rows.append((place.topic_id, place.partition, batch.num_rows, position, length, *times))
        crcs.append(crc32c(message))
        if schema.offset is not None:
            offsets.append(offset_bounds(batch.column(schema.offset)))
        rest = rest.slice(length)
    return index_of(rows, crcs, None if schema.offset is None else offsets)


def _opened(what: str, key: str, body: pa.Buffer, format_key: bytes, known: Mapping[bytes, T]) -> tuple[T, pa.Buffer]:
    """Return the value in `known` that belongs to the format number of a file, and the messages after its schema.

    The number is in the metadata of the file's schema, under `format_key`; it alone says which columns the file has.
    Raises Malformed, and UnsupportedVersion if the number is not in `known`; `what` and `key` name the file.
    """
    if body.size < len(FILE_START) or body.slice(0, len(FILE_START)).to_pybytes() != FILE_START:
        raise Malformed("no Arrow file")
    metadata, length = schema_metadata(body.slice(len(FILE_START)))
    number = metadata.get(format_key)
    if number is None or number not in known:
        wanted = " or ".join(format_.decode() for format_ in known)
        raise UnsupportedVersion(f"{what} {key}: wanted format {wanted}, found {number!r}")
    return known[number], body.slice(len(FILE_START) + length)
