"""Converts Arrow batches, column by column, to the record objects that a consumer returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from sparklog.core.errors import InvalidRecord

Headers = tuple[tuple[str, bytes | None], ...]
Deserializer = Callable[[bytes], Any]


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that a consumer returns. `timestamp_type`: 0 is the producer's time, 1 the time of the append.

    Key and value are bytes or None, unless the consumer has deserializers.
    """

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    headers: Headers
    timestamp_us: int  # since the epoch, UTC
    timestamp_type: int

    @property
    def timestamp_ms(self) -> int:
        """The timestamp in milliseconds, as in Kafka."""
        return self.timestamp_us // 1000


class Deserializers(NamedTuple):
    """A consumer's functions that turn bytes into keys and values. None: keys or values stay bytes.

    A key or value of None stays None, and the function is not called.
    """

    key: Deserializer | None = None
    value: Deserializer | None = None

    def records(
        self, topic: str, partition: int, batch: pa.RecordBatch
    ) -> tuple[list[ConsumerRecord], InvalidRecord | None]:
        """Convert a batch up to the first record that can't be deserialized. Returns the records, and its error.

        If all records can be deserialized, the error is None. The batch must have all columns of the read schema and at
        least one row.
        """
        offsets, keys, values = (batch.column(name).to_pylist() for name in ("offset", "key", "value"))
        why: Exception | None = None
        if self.key is not None:
            keys, why = _applied(self.key, keys)
        if self.value is not None:
            values, of_value = _applied(self.value, values[: len(keys)])
            why = of_value or why
        headers = batch.column("headers")
        stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
        of_rows = repeat(()) if headers.null_count == len(headers) else map(_headers, headers.to_pylist())
        kind = batch.column("timestampType")[0].as_py()
        columns = (repeat(topic), repeat(partition), offsets, keys, values, of_rows, stamps, repeat(kind))
        records = list(map(ConsumerRecord, *columns))  # up to the end of the shortest
        if why is None:
            return records, None
        error = InvalidRecord(
            f"{topic}-{partition}: the record at offset {offsets[len(records)]} can't be deserialized: {why!r}; "
            "to skip it, seek to the next offset"
        )
        error.__cause__ = why
        return records, error


def _applied(function: Deserializer, column: Sequence[bytes | None]) -> tuple[list[Any], Exception | None]:
    """Apply `function` to the cells that are not None. Returns the results before the first error, and the error.

    The error is None if there was none.
    """
    made: list[Any] = []
    try:
        for cell in column:
            made.append(None if cell is None else function(cell))  # noqa: PERF401 - results before an error count
    except Exception as error:
        return made, error
    return made, None


def _headers(cell: list[dict[str, bytes | None]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in cell or ())  # type: ignore[misc]
