"""The stored columns of a topic's records, and what each is for.

Stored schemas have no dictionary, large or view types, because Spark compares schemas exactly. For the same reason all
fields are nullable, except the column of offsets. Only compacted segments store that column, and objects of mirror
topics. Code that writes, reads and rewrites objects knows columns by their roles and types. The names of raw records
are those of Kafka, which only the views use (`kafka_columns`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.types as pat

OBJECT_FORMAT_KEY: Final = b"sparklog.format"  # in the metadata of the Arrow schema of each object
_DENSE_FORMAT: Final = b"3"  # record i of a slice has offset slice.start + i
_COMPACTED_FORMAT: Final = b"4"  # a column has the offset of each record
_ENDS_BYTES: Final = 4  # of a value's end in its column

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
# Headers as stored: writers check that keys are UTF-8, decoders do not.
STORED_HEADERS: Final = pa.list_(pa.field("element", pa.struct([("key", pa.binary()), ("value", pa.binary())])))
OFFSET: Final = pa.field("offset", pa.int64(), nullable=False)

TOPIC: Final = "_topic"  # columns of rows to write, beside those that are stored
PARTITION: Final = "_partition"


@dataclass(frozen=True, eq=False)
class StoredSchema:
    """The columns of an object, as `arrow`. `content`: in words, those that the user has written.

    `key`: its bytes choose a record's partition, and the records of a key are compacted. `offset` is None if offsets
    follow from the slice. There is at most one column of lists, and its elements are structs of bytes or text.
    """

    arrow: pa.Schema
    content: str
    key: str
    timestamp: str
    offset: str | None = None

    def __post_init__(self) -> None:
        elements = [self.arrow.field(name).type.value_type for name in self.list_columns]
        if len(elements) > 1 or not all(pat.is_struct(kind) and all(map(_is_bytes, _types(kind))) for kind in elements):
            raise ValueError(f"wanted at most one column of lists, of structs of bytes or text, found {self.arrow}")

    @property
    def names(self) -> list[str]:
        return list(self.arrow.names)

    @cached_property
    def byte_columns(self) -> tuple[str, ...]:
        """The columns of bytes or text."""
        return tuple(field.name for field in self.arrow if _is_bytes(field.type))

    @cached_property
    def list_columns(self) -> tuple[str, ...]:
        """The columns of lists. If all of one are null, writers leave it out until the batch is encoded."""
        return tuple(field.name for field in self.arrow if pat.is_list(field.type))

    @cached_property
    def row_bytes(self) -> int:
        """Raw bytes of a row, on top of those of its bytes, texts and lists.

        The column of offsets does not count, nor do the ends of lists.
        """
        others = (*self.byte_columns, *self.list_columns, self.offset)
        numbers = (field.type for field in self.arrow if field.name not in others)
        return int(sum(kind.bit_width for kind in numbers)) // 8 + _ENDS_BYTES * len(self.byte_columns)

    @cached_property
    def element_bytes(self) -> int:
        """Raw bytes of an element of a list, on top of those of its bytes and texts."""
        elements = [self.arrow.field(name).type.value_type for name in self.list_columns]
        return sum(_ENDS_BYTES * kind.num_fields for kind in elements)


def _types(struct: pa.StructType) -> list[pa.DataType]:
    return [struct.field(number).type for number in range(struct.num_fields)]


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pat.is_binary(kind) or pat.is_string(kind))


RAW: Final = StoredSchema(
    pa.schema(
        [("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS), ("timestamp", TIMESTAMP)],
        metadata={OBJECT_FORMAT_KEY: _DENSE_FORMAT},
    ),
    content="key, value and headers",
    key="key",
    timestamp="timestamp",
)
RAW_WITH_OFFSETS: Final = StoredSchema(
    pa.schema(
        [*RAW.arrow, OFFSET],
        metadata={OBJECT_FORMAT_KEY: _COMPACTED_FORMAT},
    ),
    content=RAW.content,
    key=RAW.key,
    timestamp=RAW.timestamp,
    offset=OFFSET.name,
)
STORED_SCHEMAS: Final = {_DENSE_FORMAT: RAW, _COMPACTED_FORMAT: RAW_WITH_OFFSETS}
