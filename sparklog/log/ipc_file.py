"""Assemble a standard Arrow IPC file from record batch messages that are already encoded.

Arrow's own file writer always encodes its batches itself. Here batches stay encoded until their object is closed, and a
rewrite copies them without decoding. Layout (Arrow Columnar Format, "IPC File Format"):

    "ARROW1" 0 0 | schema message | record batch messages … | end of stream | footer | footer length, int32 | "ARROW1"

Each part begins at a multiple of 8. The footer is a flatbuffer that names the schema and, per batch, a 24-byte struct
Block {offset: int64, metaDataLength: int32, 4 bytes of padding, bodyLength: int64}.
"""

from __future__ import annotations

import functools
import struct
from typing import Final, Protocol

import google_crc32c
import numpy as np
import pyarrow as pa

from sparklog.storage.object_store import Bytes

MAGIC: Final = b"ARROW1"
FILE_START: Final = MAGIC + b"\0\0"
END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"
_CONTINUATION: Final = 0xFFFFFFFF
_RECORD_BATCHES_FIELD: Final = 3  # table Footer { version; schema; dictionaries; recordBatches; custom_metadata }
# The padding is a field, so that it is 0 instead of old memory contents.
_BLOCK: Final = np.dtype([("offset", "<i8"), ("metadata_length", "<i4"), ("padding", "<i4"), ("body_length", "<i8")])


class Sink(Protocol):
    """Something that takes the bytes of a file, such as an upload."""

    def write(self, body: Bytes) -> None: ...


@functools.lru_cache(maxsize=64)
def file_head(schema: pa.Schema) -> pa.Buffer:
    """The bytes before the first batch: magic and schema message."""
    return pa.py_buffer(FILE_START + schema.serialize().to_pybytes())


class IpcFileWriter:
    """Streams an Arrow IPC file into a sink, such as an upload.

    Call `append` any number of times, then `finish` once. `position` is the length so far, `crc32c` the checksum of
    these bytes.
    """

    def __init__(self, sink: Sink, schema: pa.Schema) -> None:
        self.position = 0
        self.crc32c = 0
        self._sink = sink
        self._schema = schema
        self._blocks: list[tuple[int, int, int, int]] = []
        self._write(file_head(schema))

    def append(self, message: pa.Buffer) -> int:
        """Add one encapsulated record batch message, and return its position in the file.

        Raises ValueError if it isn't such a message, or is not padded to a multiple of 8 bytes.
        """
        marker, metadata_length = struct.unpack_from("<Ii", message, 0)
        length = 8 + metadata_length
        if marker != _CONTINUATION or not 8 < length <= message.size or length % 8 or message.size % 8:
            raise ValueError(f"wanted an encapsulated Arrow message of whole 8 bytes, found {message.size} bytes")
        position = self.position
        self._blocks.append((position, length, 0, message.size - length))
        self._write(message)
        return position

    def finish(self) -> None:
        """Write the end of the stream and the footer. Then `position` is the size of the file."""
        self._write(pa.py_buffer(END_OF_STREAM))
        footer = _footer(self._schema, np.array(self._blocks, dtype=_BLOCK))
        self._write(pa.py_buffer(footer + struct.pack("<i", len(footer)) + MAGIC))

    def _write(self, body: pa.Buffer) -> None:
        self._sink.write(memoryview(body))
        self.crc32c = google_crc32c.extend(self.crc32c, body)
        self.position += body.size


def _footer(schema: pa.Schema, blocks: np.ndarray[tuple[int], np.dtype[np.void]]) -> bytes:
    """Build the footer of a file of `schema` with the batches `blocks`.

    It is Arrow's footer for a file with one empty batch, in which the vector of blocks is replaced: the new vector is
    appended, and the table's field points to it. Offsets in flatbuffers only point forward, so it must come last.
    """
    template, field = footer_template(schema)
    # A vector is a uint32 length followed by the structs, which must begin at a multiple of 8.
    vector = len(template) + (4 - len(template)) % 8
    footer = bytearray(vector + 4 + blocks.nbytes)
    footer[: len(template)] = template
    struct.pack_into("<I", footer, field, vector - field)
    struct.pack_into("<I", footer, vector, len(blocks))
    footer[vector + 4 :] = blocks.tobytes()
    return bytes(footer)


@functools.lru_cache(maxsize=64)
def footer_template(schema: pa.Schema) -> tuple[bytes, int]:
    """Return Arrow's footer for a file of `schema` with one empty batch, and a position in this footer.

    At this position is the field that points to the vector of blocks.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(_empty_batch(schema))
    file = sink.getvalue().to_pybytes()
    end = len(file) - len(MAGIC) - 4
    (length,) = struct.unpack_from("<i", file, end)
    footer = file[end - length : end]
    (table,) = struct.unpack_from("<I", footer, 0)
    (back,) = struct.unpack_from("<i", footer, table)
    (slot,) = struct.unpack_from("<H", footer, table - back + 4 + 2 * _RECORD_BATCHES_FIELD)
    return footer, table + slot


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
