"""Record batches in stored form: one encapsulated Arrow IPC message each, with a CRC32C.

Messages are compressed, unless the batch is small or the codec is "none". A message names its topic and partition in
its metadata, so that an index can be rebuilt from the object alone. Arrow IPC has no checksum, and most flipped bits
would decode to wrong rows, so `decodings` verify first.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from sparklog.core.errors import Damaged, InvalidInput, RecordTooLarge
from sparklog.core.types import PartitionIndex, TopicId, TopicPartition
from sparklog.log.message_decoder import LARGEST_BATCH_BYTES, MessageDecoder, TooLarge
from sparklog.log.message_metadata import Malformed, batch_metadata
from sparklog.log.stored_schema import RAW, StoredSchema

PARTITION_KEY: Final = b"sparklog.partition"  # in the metadata of each batch message: <topic id>-<partition>
SMALL_BATCH_BYTES: Final = 16 << 10  # smaller batches are stored uncompressed: zstd costs at least 0.27 ms
ARENA_BYTES: Final = 8 << 20
_PLACE: Final = re.compile(rb"([0-9]{1,10})-([0-9]{1,10})")
_MESSAGE_ROOM: Final = 4 << 10  # more than the metadata, partition and padding of one message need


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch of one partition as bytes, ready for an object. Timestamp bounds are in microseconds and inclusive.

    `offsets`: the offsets of the first and the last record, or None if the batch does not store offsets.
    """

    partition: PartitionIndex
    message: pa.Buffer
    records: int
    min_timestamp_us: int
    max_timestamp_us: int
    crc32c: int
    offsets: tuple[int, int] | None = None


def check_compression(name: str) -> None:
    """Raise InvalidInput unless batches can be stored with this compression."""
    if name not in ("zstd", "lz4", "none"):
        raise InvalidInput(f"compression: wanted zstd, lz4 or none, found {name!r}")


class BatchEncoder:
    """Encodes batches of one schema, one at a time. Not thread-safe.

    Each message is written into an arena, a buffer of 8 MiB, and returned as a view of the arena, so that its bytes are
    not copied again. When the arena is full, a new one is begun; the old one is freed once none of its messages is used
    any more. A batch that is too large for an arena of 8 MiB gets a larger one.
    """

    def __init__(self, compression: str, schema: StoredSchema = RAW) -> None:
        check_compression(compression)
        self._codec = None if compression == "none" else compression
        self._schema = schema
        self._arena: _Arena | None = None

    def encode(self, place: TopicPartition, rows: pa.RecordBatch) -> EncodedBatch:
        """Encode `rows`, which belong to the partition `place`, as one message.

        `rows` must have at least one row, the columns of the encoder's schema (columns of lists may be missing),
        and no null timestamp.
        """
        rows = with_all_columns(rows, self._schema)
        raw_bytes = pa.ipc.get_record_batch_size(rows)
        # Data that does not compress may grow a little with both codecs, by less than 1 %.
        bound = raw_bytes + raw_bytes // 64 + _MESSAGE_ROOM
        if self._arena is None or self._arena.room < bound:
            self._arena = _Arena(max(ARENA_BYTES, bound + 2 * _MESSAGE_ROOM), self._codec, self._schema.arrow)
        message = self._arena.write(
            rows, _partition_metadata(place.topic_id, place.partition), small=raw_bytes < SMALL_BATCH_BYTES
        )
        low, high = timestamp_bounds(rows.column(self._schema.timestamp))
        offsets = None if self._schema.offset is None else offset_bounds(rows.column(self._schema.offset))
        return EncodedBatch(place.partition, message, rows.num_rows, low, high, google_crc32c.value(message), offsets)

    def rewind(self) -> None:
        """Overwrite the current arena from its beginning. Call this only if none of its messages is needed any more."""
        if self._arena is not None:
            self._arena.rewind()

    def forget(self) -> None:
        """Begin a new arena with the next batch. The old one is freed once none of its messages is used any more."""
        self._arena = None


class _Arena:
    """A buffer for messages, one after another. Small batches are stored uncompressed, all others with `codec`."""

    def __init__(self, size_bytes: int, codec: str | None, schema: pa.Schema) -> None:
        self._buffer = pa.py_buffer(_pages(size_bytes))
        self._size_bytes = size_bytes
        self._codec = codec
        self._schema = schema
        self.rewind()

    def rewind(self) -> None:
        """Start again at the beginning of the buffer, and overwrite the messages there."""
        self._sink = pa.FixedSizeBufferWriter(self._buffer)
        self._plain = self._stream(None)
        self._packed = self._stream(self._codec) if self._codec else self._plain

    @property
    def room(self) -> int:
        return self._size_bytes - int(self._sink.tell())

    def write(self, rows: pa.RecordBatch, metadata: Any, *, small: bool) -> pa.Buffer:
        start = self._sink.tell()
        (self._plain if small else self._packed).write_batch(rows, custom_metadata=metadata)
        return self._buffer.slice(start, self._sink.tell() - start)

    def _stream(self, codec: str | None) -> Any:
        options = pa.ipc.IpcWriteOptions(compression=codec)
        stream = pa.ipc.new_stream(self._sink, self._schema, options=options)
        stream.write_batch(_no_rows(self._schema))  # the schema message is written with the first batch
        return stream


def _pages(size_bytes: int) -> mmap.mmap:
    """Allocate memory that goes back to the system as soon as it is freed. Huge pages, if available, make it faster."""
    pages = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


@functools.lru_cache(maxsize=1024)
def _partition_metadata(topic_id: TopicId, partition: PartitionIndex) -> Any:
    return pa.KeyValueMetadata({PARTITION_KEY: f"{topic_id}-{partition}".encode()})


# ---- columns of lists that are all null ------------------------------------------------------------


def without_null_lists(rows: pa.RecordBatch, schema: StoredSchema) -> pa.RecordBatch:
    """Return `rows` with only the columns of `schema`, and without columns of lists that are all null.

    These are left out to avoid copying nulls. `rows` must have all columns of `schema`.
    """
    left_out = [name for name in schema.list_columns if (column := rows.column(name)).null_count == len(column)]
    return rows.select([name for name in schema.names if name not in left_out])


def with_all_columns(rows: pa.RecordBatch, schema: StoredSchema) -> pa.RecordBatch:
    """Return `rows` with all columns of `schema`. Only columns of lists may be missing in `rows`.

    If no row has a list, the column becomes an array of nulls that takes almost no space. It is not a slice of
    `pa.nulls`: that would be stored with child buffers as long as the column.
    """
    columns = {name: rows.column(name) for name in rows.schema.names}
    for name in schema.list_columns:
        column = columns.get(name)
        if column is None or column.null_count == len(column):
            columns[name] = no_lists(schema.arrow.field(name).type, rows.num_rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema.arrow)


def no_lists(kind: pa.ListType, rows: int) -> pa.Array:
    """Return a column of this type with `rows` nulls."""
    return _no_lists(kind, 1 << max(0, rows - 1).bit_length()).slice(0, rows)


@functools.lru_cache(maxsize=8)
def _no_lists(kind: pa.ListType, rows: int) -> pa.Array:
    validity = pa.py_buffer(bytes((rows + 7) // 8))
    ends = pa.py_buffer(bytes(4 * (rows + 1)))
    return pa.Array.from_buffers(kind, rows, [validity, ends], children=[pa.nulls(0, kind.value_type)])


@functools.lru_cache(maxsize=64)
def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    columns = [no_lists(field.type, 0) if pat.is_list(field.type) else pa.nulls(0, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


# ---- decoding -------------------------------------------------------------------------------------


def crc32c(body: pa.Buffer) -> int:
    """CRC32C (Castagnoli) of the bytes."""
    return int(google_crc32c.value(body))


def verify(body: pa.Buffer, wanted: int, what: str, key: str, position: int) -> None:
    """Raise Damaged unless the CRC32C of `body` is `wanted`.

    `body` begins at byte `position` of object `key`. `what` is the noun for `body` in the error, such as "record
    batch".
    """
    actual = crc32c(body)
    if actual != wanted:
        raise Damaged(f"{what} at byte {position} of {key}: wanted CRC32C {wanted:#010x}, found {actual:#010x}")


def decodings(
    key: str,
    position: int,
    body: pa.Buffer,
    lengths: Sequence[int],
    crcs: Sequence[int],
    columns: Sequence[str],
    schema: StoredSchema = RAW,
    most_bytes: int = LARGEST_BATCH_BYTES,
) -> Iterator[Callable[[], pa.RecordBatch]]:
    """Yield tasks, in order, that decode consecutive batches in `body`, restricted to `columns` of `schema`.

    `body` begins at byte `position` of object `key`, and `schema` is that of the object. `lengths` and `crcs` are those
    of the messages, in order. Give at least one column; the columns of a batch are in the order of the schema. Other
    columns are not decompressed, and columns stored uncompressed are views of `body`. A task returns its batch,
    whatever others were run.

    A task raises Damaged, which names the object and the byte, if the CRC32C of its message is wrong, or if its content
    is: see `message_decoder`. It raises RecordTooLarge if the columns have more than `most_bytes` before compression.
    """
    decoder = MessageDecoder(schema.arrow, columns, most_bytes)
    start = 0
    for length, crc in zip(lengths, crcs, strict=True):
        yield functools.partial(_decoded, decoder, body.slice(start, length), crc, key, position + start)
        start += length


def _decoded(decoder: MessageDecoder, message: pa.Buffer, crc: int, key: str, position: int) -> pa.RecordBatch:
    verify(message, crc, "record batch", key, position)
    try:
        return decoder.decode(message)
    except TooLarge as error:
        raise RecordTooLarge(f"record batch at byte {position} of {key}: {error}") from error
    except Malformed as error:
        raise Damaged(f"record batch at byte {position} of {key}: it can't be decoded: {error}") from error


def place_of(message: pa.Buffer) -> TopicPartition:
    """Return the partition that a batch message names in its metadata. Raises Malformed if it names none."""
    name = batch_metadata(message).get(PARTITION_KEY, b"")
    place = _PLACE.fullmatch(name)
    topic_id, partition = (-1, -1) if place is None else (int(place[1]), int(place[2]))
    if not 0 <= max(topic_id, partition) < 1 << 31:  # as the index stores them
        raise Malformed(f"a batch of partition {name!r}")
    return TopicPartition(TopicId(topic_id), PartitionIndex(partition))


def offset_bounds(offsets: pa.Array) -> tuple[int, int]:
    """The first and the last offset of a column (at least one row)."""
    return offsets[0].as_py(), offsets[-1].as_py()


def timestamp_bounds(timestamps: pa.Array) -> tuple[int, int]:
    """Smallest and largest timestamp of a column (at least one row, no nulls), in microseconds."""
    values = timestamps_us(timestamps)
    return int(values.min()), int(values.max())


def timestamps_us(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A timestamp column without nulls as int64, without a copy."""
    return np.frombuffer(column.buffers()[1], dtype=np.int64, count=len(column), offset=8 * column.offset)
