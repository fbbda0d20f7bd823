"""Decode Arrow record batch messages, and check all of their content.

A checksum shows that the bytes are those that were written, not that they are right. If lengths or offsets are wrong,
Arrow reads beyond a buffer, or shows memory that it never wrote. So every number is checked here before it is used, and
Arrow never sees the metadata of a stored message: it gets a message of our own that describes the same buffers.

    1. the message is a record batch, and its metadata can be read
    2. the columns are those of the schema, each with as many rows as the batch
    3. each buffer lies in the message, and begins at a multiple of 8
    4. a compressed buffer claims no more bytes than its codec can pack into so few, and holds as many as it claims
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

from sparklog.log.message_metadata import (
    INT64,
    Malformed,
    MessageNumbers,
    NumberPlaces,
    batch_numbers,
    number_places,
    schema_metadata,
)
from sparklog.log.records_schema import HEADERS, STORED_HEADERS

_STORED: Final = -1  # in place of the length before compression: the buffer is not compressed
# A block of 128 KiB takes 4 bytes at least in a zstd frame. A byte more in a block of LZ4 stands for 255 bytes at most.
_MOST_RATIO: Final = {"zstd": 1 << 15, "lz4": 255}
_MOST_BYTES: Final = (1 << 31) - 9  # of a buffer before compression: a Java array holds no more
_MOST_ROWS: Final = (1 << 31) - 1
_NULL_BITS: Final = 0, 2, 3, 6  # the first buffer of each node: of lists of headers, headers, their keys, their values


class _Column(NamedTuple):
    """A column of a schema: its type, and which field nodes and buffers are its own."""

    kind: pa.DataType
    node: int
    nodes: int
    buffer: int
    buffers: int

    @property
    def is_of_numbers(self) -> bool:
        return self.buffers == 2

    @property
    def is_of_headers(self) -> bool:
        return self.nodes > 1


@functools.lru_cache(maxsize=64)
def _columns(schema: pa.Schema) -> tuple[_Column, ...]:
    columns = []
    node = buffer = 0
    for field in schema:
        nodes, buffers = (4, 9) if field.type == HEADERS else (1, 3 if field.type == pa.binary() else 2)
        columns.append(_Column(field.type, node, nodes, buffer, buffers))
        node, buffer = node + nodes, buffer + buffers
    return tuple(columns)


class MessageDecoder:
    """Decodes messages of `schema`, restricted to `columns`: at least one. Batches have them in the schema's order.

    Other columns are neither checked nor decompressed. Columns stored uncompressed are views of the message. Not
    thread-safe.
    """

    def __init__(self, schema: pa.Schema, columns: Sequence[str]) -> None:
        fields = sorted(schema.get_field_index(name) for name in columns)
        every = _columns(schema)
        self._counts = 2 * sum(column.nodes for column in every), 2 * sum(column.buffers for column in every)
        self._columns = [every[at] for at in fields]
        self._schema = self._stored = pa.schema([schema.field(at) for at in fields])
        if HEADERS in self._schema.types:  # Arrow would refuse keys that are not UTF-8
            self._stored = pa.schema(
                [field.with_type(STORED_HEADERS) if field.type == HEADERS else field for field in self._schema]
            )
        self._parts = _Parts(self._stored.serialize())
        # Threads for each batch take longer than they save: tasks and partitions are read in parallel as it is.
        options = pa.ipc.IpcReadOptions(use_threads=False)
        self._stream = pa.ipc.open_stream(pa.PythonFile(self._parts, "r"), options=options)

    def decode(self, message: pa.Buffer) -> pa.RecordBatch:
        """Decode a message. Raises Malformed: here every error of Arrow becomes one.

        Only a lack of memory is no fault of the bytes.
        """
        try:
            return self._decoded(message, batch_numbers(message))
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise Malformed(f"Arrow can't decode it: {error}") from error

    def _decoded(self, message: pa.Buffer, parsed: MessageNumbers) -> pa.RecordBatch:
        if (len(parsed.nodes), len(parsed.buffers)) != self._counts:
            raise Malformed("columns of another schema")
        if not 0 <= parsed.rows <= _MOST_ROWS:
            raise Malformed(f"a batch of {parsed.rows} rows")
        body = message.slice(parsed.body_start)
        nodes: list[int] = []
        buffers: list[int] = []
        for column in self._columns:
            _add_column(column, parsed, body, nodes, buffers)
        self._parts.begin(_template(self._stored, parsed.codec).of(parsed.rows, nodes, buffers, body.size), body)
        batch = self._stream.read_next_batch()
        batch.validate(full=True)
        return batch if self._stored is self._schema else self._with_headers(batch)

    def _with_headers(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [column.view(field.type) for column, field in zip(batch.columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _add_column(column: _Column, parsed: MessageNumbers, body: pa.Buffer, nodes: list[int], buffers: list[int]) -> None:
    """Check the nodes and buffers of a column, and add them to `nodes` and `buffers`."""
    own_nodes = parsed.nodes[2 * column.node : 2 * (column.node + column.nodes)]
    own_buffers = list(parsed.buffers[2 * column.buffer : 2 * (column.buffer + column.buffers)])
    lengths, nulls = own_nodes[::2], own_nodes[1::2]
    if lengths[0] != parsed.rows:
        raise Malformed(f"a column of {lengths[0]} rows")
    if min(nulls) < 0:  # Arrow would count them
        raise Malformed(f"a column with {min(nulls)} nulls")
    if column.is_of_numbers and nulls[0]:
        raise Malformed(f"numbers with {nulls[0]} nulls")
    if column.is_of_headers:
        if not lengths[1] == lengths[2] == lengths[3] or not 0 <= lengths[1] <= _MOST_ROWS:
            raise Malformed("headers of different lengths")
        if nulls[1] or nulls[2]:
            raise Malformed("headers without keys")
        if not lengths[1]:  # then their buffers may be anything
            if nulls[3]:
                raise Malformed(f"no headers with {nulls[3]} nulls")
            own_buffers[4:] = [0] * len(own_buffers[4:])
    for count, at in zip(nulls, _NULL_BITS, strict=False):
        if not count:  # the bits may be anything
            own_buffers[2 * at] = own_buffers[2 * at + 1] = 0
    for at in range(0, len(own_buffers), 2):
        _check_buffer(own_buffers[at], own_buffers[at + 1], body, parsed.codec)
    nodes += own_nodes
    buffers += own_buffers


def _check_buffer(start: int, length: int, body: pa.Buffer, codec: str | None) -> None:
    if start < 0 or length < 0 or start + length > body.size:
        raise Malformed("a buffer out of bounds")
    if start % 8:
        raise Malformed(f"a buffer at byte {start}")
    if codec is None or not length:
        return
    if length < INT64.size:
        raise Malformed(f"a compressed buffer of {length} bytes")
    (raw,) = INT64.unpack_from(body, start)
    most = min(_MOST_BYTES, _MOST_RATIO[codec] * (length - INT64.size))
    if raw != _STORED and not 0 <= raw <= most:
        raise Malformed(f"a length of {raw} bytes before compression")


# ---- the message that Arrow gets --------------------------------------------------------------------------


class _Template(NamedTuple):
    """The metadata of a message as Arrow writes them, and where its numbers are."""

    metadata: bytes
    places: NumberPlaces

    def of(self, rows: int, nodes: Sequence[int], buffers: Sequence[int], body_bytes: int) -> pa.Buffer:
        """The metadata of a message with these numbers."""
        made = bytearray(self.metadata)
        INT64.pack_into(made, self.places.body_bytes, body_bytes)
        INT64.pack_into(made, self.places.rows, rows)
        struct.pack_into(f"<{len(nodes)}q", made, self.places.nodes, *nodes)
        struct.pack_into(f"<{len(buffers)}q", made, self.places.buffers, *buffers)
        return pa.py_buffer(made)


@functools.lru_cache(maxsize=64)
def _template(schema: pa.Schema, codec: str | None) -> _Template:
    """Return the template for batches of a schema. It is made from one row: Arrow leaves out numbers that are 0."""
    row = pa.RecordBatch.from_arrays([_one_row(field.type) for field in schema], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(row)
    stream = sink.getvalue()
    message = stream.slice(schema_metadata(stream)[1])
    places = number_places(message)
    return _Template(message.slice(0, places.body_start).to_pybytes(), places)


def _one_row(kind: pa.DataType) -> pa.Array:
    data = [pa.py_buffer(b"")] if kind == pa.binary() else []
    children = [pa.nulls(0, kind.value_type)] if kind == STORED_HEADERS else []
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(8)), *data], children=children)


class _Parts:
    """Presents buffers as one file, so that Arrow reads from them without a copy.

    Arrow calls `read_buffer` if a Python file has that method. It reads schema, metadata and body one by one.
    """

    closed = False

    def __init__(self, *parts: pa.Buffer) -> None:
        self._position = 0
        self.begin(*parts)

    def begin(self, *parts: pa.Buffer) -> None:
        """Continue with these buffers, whatever is left of those before."""
        self._parts = list(parts)
        self._at = 0  # in the first of them

    def readable(self) -> bool:
        return True

    def read_buffer(self, size_bytes: int) -> pa.Buffer:
        while len(self._parts) > 1 and self._at == self._parts[0].size:
            del self._parts[0]
            self._at = 0
        part = self._parts[0].slice(self._at, min(size_bytes, self._parts[0].size - self._at))
        self._at += part.size
        self._position += part.size
        return part

    def read(self, size_bytes: int) -> bytes:
        return bytes(self.read_buffer(size_bytes))

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        """Do nothing: memory needs no closing."""
