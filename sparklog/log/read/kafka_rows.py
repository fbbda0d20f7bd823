"""Records in Kafka's columns: those that are stored, and those that follow from the chain."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sparklog.core.row_offsets import RowOffsets, is_dense
from sparklog.core.types import Slice, TimestampSource
from sparklog.log.header_keys import readable_headers
from sparklog.log.kafka_columns import READ_SCHEMA
from sparklog.log.number_arrays import array_of
from sparklog.log.stored_schema import TIMESTAMP

_BY_CHAIN: Final = frozenset({"topic", "partition", "offset", "timestampType"})
_CREATE_TIME, _APPEND_TIME = 0, 1  # Kafka's numbers in the column timestampType


@dataclass(frozen=True, slots=True)
class KafkaRows:
    """Builds batches of `schema` from stored columns, and from what the chain knows of the slice."""

    schema: pa.Schema
    slice: Slice
    topic: str

    @property
    def stored_columns(self) -> list[str]:
        """The columns to ask `read_batches` for. The offsets of a compacted slice are read without being asked for."""
        by_chain = _BY_CHAIN | {"timestamp"} if self._is_append_time else _BY_CHAIN
        return [name for name in self.schema.names if name not in by_chain]

    @property
    def needs_no_body(self) -> bool:
        """True if all columns follow from the chain, so that the object need not be read."""
        return not self.stored_columns and is_dense(self.slice)

    @property
    def _is_append_time(self) -> bool:
        return self.slice.timestamp_source is TimestampSource.APPEND_TIME

    def batch(self, offsets: RowOffsets, stored: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the records at these offsets. `stored` has their `stored_columns`, and is None if `needs_no_body`."""
        columns = [self._column(name, offsets, stored) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, name: str, offsets: RowOffsets, stored: pa.RecordBatch | None) -> Any:
        rows = offsets.rows
        match name:
            case "topic":
                return _repeated(self.topic, READ_SCHEMA.field(name).type, rows)
            case "partition":
                return _repeated(self.slice.partition, pa.int32(), rows)
            case "offset":
                return array_of(offsets.column())
            case "timestampType":
                created = self.slice.timestamp_source is TimestampSource.CREATE_TIME
                return _repeated(_CREATE_TIME if created else _APPEND_TIME, pa.int32(), rows)
            case "timestamp" if self._is_append_time:
                return _repeated(self.slice.append_time_ms * 1000, TIMESTAMP, rows)
            case _:
                assert stored is not None
                column = stored.column(name)
                return readable_headers(column) if name == "headers" else column


def _repeated(value: str | int, kind: pa.DataType, rows: int) -> pa.Array:
    """Return an array with `value` in each of its `rows` rows: a slice of a cached array of 1, 2, 4, 8, … rows."""
    return _repeated_power_of_two(value, kind, 1 << max(0, rows - 1).bit_length()).slice(0, rows)


@functools.lru_cache(maxsize=64)
def _repeated_power_of_two(value: str | int, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(value, int):
        return array_of(np.full(rows, value, np.int64 if kind == TIMESTAMP else np.int32), kind)
    text = value.encode()
    ends = np.arange(rows + 1, dtype=np.int32) * len(text)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(ends), pa.py_buffer(text * rows)])
