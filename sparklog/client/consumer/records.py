"""Records as Python objects, made from Arrow batches column by column."""

from __future__ import annotations

from itertools import repeat

import msgspec
import pyarrow as pa

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record as a consumer returns it. `timestamp_type`: 0 is the producer's time, 1 the time of the append."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_us: int  # since the epoch, UTC
    timestamp_type: int

    @property
    def timestamp_ms(self) -> int:
        """The timestamp as Kafka has it."""
        return self.timestamp_us // 1000


def records_of(topic: str, partition: int, batch: pa.RecordBatch) -> list[ConsumerRecord]:
    """The records of a batch of this partition, which has all columns of the read schema and at least one row."""
    columns = [batch.column(name).to_pylist() for name in ("offset", "key", "value")]
    headers = batch.column("headers")
    stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
    of_rows = repeat(()) if headers.null_count == len(headers) else map(_headers, headers.to_pylist())
    kind = batch.column("timestampType")[0].as_py()
    return list(map(ConsumerRecord, repeat(topic), repeat(partition), *columns, of_rows, stamps, repeat(kind)))


def _headers(found: list[dict[str, bytes | None]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in found or ())  # type: ignore[misc]
