"""Read the metadata of Arrow messages, which may be wrong.

They are flatbuffers, described in Arrow's Message.fbs and Schema.fbs. Nothing here reads beyond their bytes, and no
number is used before it is checked. Decoder.java reads them the same way, so both find the same numbers.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import pyarrow as pa

PREFIX_BYTES: Final = 8  # before the metadata of a message: a marker, and the length of the metadata
INT8, INT16, INT32, INT64 = (struct.Struct(f"<{form}") for form in "bhiq")
_OFFSETS: Final = [struct.Struct(f"<{count}h") for count in range(6)]  # of the fields of a table
_PREFIX: Final = struct.Struct("<Ii")
_CONTINUATION: Final = 0xFFFFFFFF
_SCHEMA, _RECORD_BATCH = 1, 3  # in the union MessageHeader
_VERSIONS: Final = 3, 4  # V4 and V5 of the enum MetadataVersion
_CODECS: Final = {0: "lz4", 1: "zstd"}  # in the enum CompressionType


class Malformed(ValueError):
    """The bytes are not the message that they should be. The text says what was found."""


class MessageNumbers(NamedTuple):
    """The numbers in the metadata of a record batch message.

    Its body begins at `body_start` and has `body_bytes`. `nodes` has the length and the number of nulls of each field
    node, `buffers` the position in the body and the length of each buffer.
    """

    body_start: int
    body_bytes: int
    rows: int
    nodes: tuple[int, ...]
    buffers: tuple[int, ...]
    codec: str | None


def schema_metadata(message: pa.Buffer) -> tuple[dict[bytes, bytes], int]:
    """Return the custom metadata of the schema message at the beginning of `message`, and the length of that message.

    Raises Malformed.
    """
    try:
        opened = _OpenedMessage(message, _SCHEMA)
        *_, custom = opened.metadata.fields(opened.header, 3)  # endianness, fields, custom_metadata
        return opened.metadata.pairs(custom), opened.body_start
    except struct.error as error:
        raise Malformed("metadata that end too early") from error


def batch_metadata(message: pa.Buffer) -> dict[bytes, bytes]:
    """Return the custom metadata of a record batch message. Raises Malformed."""
    try:
        opened = _OpenedMessage(message, _RECORD_BATCH)
        return opened.metadata.pairs(opened.custom)
    except struct.error as error:
        raise Malformed("metadata that end too early") from error


def batch_numbers(message: pa.Buffer) -> MessageNumbers:
    """Return the numbers of a record batch message. Raises Malformed."""
    try:
        opened = _OpenedMessage(message, _RECORD_BATCH)
        metadata = opened.metadata
        rows, nodes, buffers, compression = metadata.fields(opened.header, 4)
        return MessageNumbers(
            opened.body_start,
            opened.body_bytes,
            metadata.field(INT64, rows),
            metadata.pairs_of_numbers(nodes),
            metadata.pairs_of_numbers(buffers),
            _codec(metadata, compression) if compression else None,
        )
    except struct.error as error:
        raise Malformed("metadata that end too early") from error


def _codec(metadata: _Flatbuffer, compression: int) -> str:
    (field,) = metadata.fields(metadata.target(compression), 1)
    number = metadata.field(INT8, field)
    if number not in _CODECS:
        raise Malformed(f"codec {number}")
    return _CODECS[number]


class _OpenedMessage:
    """The parts of a message: its metadata, its header of type `kind`, and where its body begins."""

    def __init__(self, message: pa.Buffer, kind: int) -> None:
        if message.size < PREFIX_BYTES:
            raise Malformed(f"a message of {message.size} bytes")
        marker, length = _PREFIX.unpack_from(message)
        if marker != _CONTINUATION:
            raise Malformed("no Arrow message")
        if not 0 < length <= message.size - PREFIX_BYTES or length % 8:
            raise Malformed(f"metadata of {length} bytes")
        self.metadata = metadata = _Flatbuffer(message.slice(PREFIX_BYTES, length).to_pybytes())
        version, type_, header, body_length, self.custom = metadata.fields(metadata.number(INT32, 0), 5)
        if metadata.field(INT8, type_) != kind:
            raise Malformed(f"a message of type {metadata.field(INT8, type_)}")
        if metadata.field(INT16, version) not in _VERSIONS:
            raise Malformed(f"metadata of version {metadata.field(INT16, version)}")
        self.header = metadata.target(header)
        self.body_start = PREFIX_BYTES + length
        self.body_bytes = metadata.field(INT64, body_length)
        if not 0 <= self.body_bytes <= message.size - self.body_start:
            raise Malformed(f"a body of {self.body_bytes} bytes")


class _Flatbuffer:
    """Tables of a flatbuffer. A field is the position of its value, or 0 if the table leaves it out."""

    def __init__(self, body: bytes) -> None:
        self._bytes = body

    def field(self, form: struct.Struct, field: int) -> int:
        """The number in a field; 0 if the field is absent."""
        return self.number(form, field) if field else 0

    def number(self, form: struct.Struct, at: int) -> int:
        """The number at a position."""
        if at < 0:
            raise Malformed("metadata that point before their beginning")
        number: int = form.unpack_from(self._bytes, at)[0]
        return number

    def fields(self, table: int, count: int) -> list[int]:
        """The positions of the first `count` fields of a table."""
        vtable = table - self.number(INT32, table)
        room = self.number(INT16, vtable) - 3  # a field counts if it begins before the end of the vtable
        present = min(count, max(0, room // 2))
        offsets = _OFFSETS[present].unpack_from(self._bytes, vtable + 4)
        return [table + offset if offset else 0 for offset in offsets] + [0] * (count - present)

    def target(self, field: int) -> int:
        """The position of the table, vector or text that a field refers to."""
        if not field:
            raise Malformed("metadata that lack a part")
        return field + self.number(INT32, field)

    def pairs_of_numbers(self, field: int) -> tuple[int, ...]:
        """The numbers in a vector of structs of two int64, in order."""
        at = self.target(field)
        count = self.number(INT32, at)
        if not 0 <= count <= len(self._bytes):
            raise Malformed(f"a vector of {count} elements")
        return struct.unpack_from(f"<{2 * count}q", self._bytes, at + INT32.size)

    def pairs(self, field: int) -> dict[bytes, bytes]:
        """The key-value pairs of custom metadata. If a key is there twice, the last one counts."""
        if not field:
            return {}
        vector = self.target(field)
        count = self.number(INT32, vector)
        pairs = {}
        for at in range(vector + 4, vector + 4 + 4 * count, 4):
            key, value = self.fields(self.target(at), 2)
            pairs[self._text(key)] = self._text(value)
        return pairs

    def _text(self, field: int) -> bytes:
        at = self.target(field)
        length = self.number(INT32, at)
        if not 0 <= length <= len(self._bytes) - at - INT32.size:
            raise Malformed(f"a text of {length} bytes")
        return self._bytes[at + INT32.size : at + INT32.size + length]
