"""Decode Arrow record batch messages, and check all of their content.

A checksum shows that the bytes are those that were written, not that they are right. If lengths or offsets are wrong,
Arrow reads beyond a buffer, or shows memory that it never wrote. So every number is checked here before it is used, and
Arrow never sees the metadata of a stored message: its arrays are made from the buffers, one by one.

    1. the message is a record batch, and its metadata can be read
    2. the columns are those of the schema, each with as many rows as the batch
    3. each buffer lies in the message, and begins at a multiple of 8
    4. a compressed buffer claims no more bytes than its codec can pack into so few, and holds as many as it claims;
       all buffers together claim no more than the codec can pack into the message, nor more than `LARGEST_BATCH_BYTES`
    5. a buffer has the bytes that its column needs; offsets ascend, and end within their data
    6. a column has as many nulls as its bits say; numbers, headers and the keys of headers have none

Decoder.java checks the same, so both read, or both refuse. Neither looks at columns that are not wanted. The keys of
headers may be other bytes than UTF-8: `header_keys.readable_headers` replaces these.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from sparklog.core.describe.readable import exact_amount
from sparklog.log.message_metadata import INT64, Malformed, MessageNumbers, batch_numbers
from sparklog.log.stored_schema import HEADERS, STORED_HEADERS

_STORED: Final = -1  # in place of the length before compression: the buffer is not compressed
# A block of 128 KiB takes 4 bytes at least in a zstd frame. A byte more in a block of LZ4 stands for 255 bytes at most.
_MOST_RATIO: Final = {"zstd": 1 << 15, "lz4": 255}
# Writers end a batch at 4/3 MiB (see `WriterLimits`), unless it is a single record. Its key, value and headers have at
# most max.message.bytes, which is below 2 GiB. The rest is for the offsets and bits of up to 250 million headers.
LARGEST_BATCH_BYTES: Final = 1 << 32  # of the buffers of a batch before compression
LARGEST_TIMES_BYTES: Final = 64 << 20  # of the timestamps and offsets: a batch of many records has less than 4 MiB
_MOST_BYTES: Final = (1 << 31) - 9  # of a buffer before compression: a Java array holds no more
_MOST_ROWS: Final = (1 << 31) - 1
_BYTES: Final = pa.binary()
_PAIR: Final = STORED_HEADERS.value_type
_NO_PAIRS: Final = pa.nulls(0, _PAIR)
_LZ4_START: Final = struct.Struct("<IB")  # of a frame: a magic number and flags
_LZ4_MAGIC: Final = 0x184D2204
_UINT32: Final = struct.Struct("<I")


class TooLarge(Malformed):
    """The batch may be right, but decompressing it needs more memory than the caller allows."""


class _Column(NamedTuple):
    """A column of a schema: its type, the numbers of its first field node and its first buffer, and its buffers."""

    name: str
    kind: pa.DataType
    node: int
    buffer: int
    buffers: int


class _Wanted(NamedTuple):
    """The wanted columns of a schema, in its order, and how many field nodes and buffers all its columns have."""

    schema: pa.Schema
    columns: tuple[_Column, ...]
    nodes: int
    buffers: int


@functools.lru_cache(maxsize=64)
def _wanted(schema: pa.Schema, names: tuple[str, ...]) -> _Wanted:
    columns = []
    node = buffer = 0
    for field in schema:
        nodes, buffers = (4, 9) if field.type == HEADERS else (1, 3 if field.type == _BYTES else 2)
        columns.append(_Column(field.name, field.type, node, buffer, buffers))
        node, buffer = node + nodes, buffer + buffers
    chosen = tuple(column for column in columns if column.name in names)
    return _Wanted(pa.schema([schema.field(column.name) for column in chosen]), chosen, node, buffer)


class MessageDecoder:
    """Decodes messages of `schema`, restricted to `columns`: at least one. Batches have them in the schema's order.

    Other columns are neither checked nor decompressed. Columns stored uncompressed are views of the message.
    If they need more than `most_bytes` of memory, none is decompressed, and TooLarge is raised.
    """

    def __init__(self, schema: pa.Schema, columns: Sequence[str], most_bytes: int = LARGEST_BATCH_BYTES) -> None:
        self._wanted = _wanted(schema, tuple(columns))
        self._most_bytes = most_bytes

    def decode(self, message: pa.Buffer) -> pa.RecordBatch:
        """Decode a message. Raises Malformed."""
        return pa.RecordBatch.from_arrays(self.arrays(message), schema=self._wanted.schema)

    def arrays(self, message: pa.Buffer) -> list[pa.Array]:
        """Decode a message into its columns. Raises Malformed."""
        wanted = self._wanted
        numbers = batch_numbers(message)
        if (len(numbers.nodes), len(numbers.buffers)) != (2 * wanted.nodes, 2 * wanted.buffers):
            raise Malformed("columns of another schema")
        if not 0 <= numbers.rows <= _MOST_ROWS:
            raise Malformed(f"a batch of {numbers.rows} rows")
        stored = _StoredColumns(numbers, message.slice(numbers.body_start))
        claimed = stored.claimed_bytes(wanted.columns)
        # Refuse large claims before memory is allocated: small buffers may claim much, and several may share bytes.
        if numbers.codec and claimed > min(LARGEST_BATCH_BYTES, _MOST_RATIO[numbers.codec] * message.size):
            raise Malformed(f"buffers of {claimed} bytes before compression")
        if claimed > self._most_bytes:
            most = exact_amount(self._most_bytes)
            raise TooLarge(f"wanted at most {most} before compression, found {exact_amount(claimed)}")
        return [stored.column(column) for column in wanted.columns]


class _StoredColumns:
    """The columns in the body of a message."""

    def __init__(self, numbers: MessageNumbers, body: pa.Buffer) -> None:
        self._numbers = numbers
        self._body = body

    def claimed_bytes(self, columns: Sequence[_Column]) -> int:
        """Sum of the lengths before compression that the buffers of these columns claim. None is checked yet."""
        claimed = 0
        prefix_bytes = INT64.size if self._numbers.codec else 0
        for column in columns:
            for buffer in range(column.buffer, column.buffer + column.buffers):
                start, length = self._numbers.buffers[2 * buffer : 2 * buffer + 2]
                if start >= 0 and length >= prefix_bytes and start + length <= self._body.size:
                    raw = INT64.unpack_from(self._body, start)[0] if prefix_bytes else _STORED
                    claimed += length - prefix_bytes if raw == _STORED else max(0, raw)
        return claimed

    def column(self, column: _Column) -> pa.Array:
        """Return a column, all of it checked. Every error of Arrow becomes Malformed, except a lack of memory."""
        try:
            array = self._array(column.kind, column.node, column.buffer)
            array.validate(full=True)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise Malformed(f"Arrow can't decode column {column.name}: {error}") from error
        # Arrow would refuse keys that are not UTF-8, so they were bytes until here.
        return array.view(HEADERS) if column.kind == HEADERS else array

    def _array(self, kind: pa.DataType, node: int, buffer: int) -> pa.Array:
        rows, nulls = self._node(node)
        if rows != self._numbers.rows:
            raise Malformed(f"a column of {rows} rows")
        if kind == HEADERS:
            ends = self._buffer(buffer + 1)
            pairs = self._pairs(node + 1, buffer + 2)
            return pa.Array.from_buffers(STORED_HEADERS, rows, [self._bits(buffer, nulls), ends], nulls, 0, [pairs])
        if kind == _BYTES:
            return self._binary(node, buffer)
        if nulls:
            raise Malformed(f"numbers with {nulls} nulls")
        return pa.Array.from_buffers(kind, rows, [None, self._buffer(buffer + 1)], 0)

    def _binary(self, node: int, buffer: int) -> pa.Array:
        rows, nulls = self._node(node)
        buffers = [self._bits(buffer, nulls), self._buffer(buffer + 1), self._buffer(buffer + 2)]
        return pa.Array.from_buffers(_BYTES, rows, buffers, nulls)

    def _pairs(self, node: int, buffer: int) -> pa.Array:
        """The headers of all rows. `node`, `buffer`: the first of the pairs; those of keys, then of values, follow."""
        (count, nulls), (keys, null_keys), (values, null_values) = (self._node(node + at) for at in range(3))
        if not count == keys == values or not 0 <= count <= _MOST_ROWS:
            raise Malformed("headers of different lengths")
        if nulls or null_keys:
            raise Malformed("headers without keys")
        if count:
            children = [self._binary(node + 1, buffer + 1), self._binary(node + 2, buffer + 4)]
            return pa.Array.from_buffers(_PAIR, count, [None], 0, 0, children)
        if null_values:
            raise Malformed(f"no headers with {null_values} nulls")
        return _NO_PAIRS  # their buffers may be anything

    def _node(self, node: int) -> tuple[int, int]:
        """The length and the number of nulls of a field node."""
        rows, nulls = self._numbers.nodes[2 * node : 2 * node + 2]
        if nulls < 0:  # Arrow would count them
            raise Malformed(f"a column with {nulls} nulls")
        return rows, nulls

    def _bits(self, buffer: int, nulls: int) -> pa.Buffer | None:
        return self._buffer(buffer) if nulls else None  # without nulls the bits may be anything

    def _buffer(self, buffer: int) -> pa.Buffer:
        start, length = self._numbers.buffers[2 * buffer : 2 * buffer + 2]
        if start < 0 or length < 0 or start + length > self._body.size:
            raise Malformed("a buffer out of bounds")
        if start % 8:
            raise Malformed(f"a buffer at byte {start}")
        stored = self._body.slice(start, length)
        return _unpacked(stored, self._numbers.codec) if self._numbers.codec and length else stored


# ---- compressed buffers -----------------------------------------------------------------------------------


def _unpacked(stored: pa.Buffer, codec: str) -> pa.Buffer:
    if stored.size < INT64.size:
        raise Malformed(f"a compressed buffer of {stored.size} bytes")
    (raw,) = INT64.unpack_from(stored)
    packed = stored.slice(INT64.size)
    if raw == _STORED:
        return packed
    most = min(_MOST_BYTES, _MOST_RATIO[codec] * packed.size)
    if not 0 <= raw <= most:
        raise Malformed(f"a length of {raw} bytes before compression")
    # zstd refuses to unpack another number of bytes. For LZ4, Arrow would return bytes that were never written.
    return _of_lz4_frame(packed, raw) if codec == "lz4" else pa.decompress(packed, raw, codec)


def _of_lz4_frame(packed: pa.Buffer, raw: int) -> pa.Buffer:
    if _lz4_frame_bytes(packed) != packed.size:
        raise Malformed("bytes after an LZ4 frame")
    stream = pa.CompressedInputStream(pa.BufferReader(packed), "lz4")
    plain = stream.read_buffer(raw)
    if plain.size != raw or stream.read(1):
        raise Malformed(f"an LZ4 frame with another length than {raw} bytes")
    return plain


def _lz4_frame_bytes(packed: pa.Buffer) -> int:
    """Return the length of the LZ4 frame at the beginning of `packed` (LZ4 Frame Format 1.6): Arrow would read more."""
    try:
        magic, flags = _LZ4_START.unpack_from(packed)
        if magic != _LZ4_MAGIC:
            raise Malformed("no LZ4 frame")
        at = 15 if flags & 8 else 7  # with or without the length of the content
        checksum = 4 if flags & 16 else 0  # of each block
        while size := _UINT32.unpack_from(packed, at)[0]:
            at += _UINT32.size + (size & 0x7FFFFFFF) + checksum
    except struct.error as error:
        raise Malformed("an LZ4 frame without an end") from error
    return at + _UINT32.size + (4 if flags & 4 else 0)  # with or without a checksum of the content
