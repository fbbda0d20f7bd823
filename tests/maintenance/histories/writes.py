"""Records of the model as a table to append, and records that were read as records of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from sparklog.log.stored_schema import HEADERS, TIMESTAMP
from tests.maintenance.histories.partition_model import Row

COLUMNS: Final = ("offset", "key", "value", "timestamp", "headers")
_NAME: Final = "name"  # of the header


def table_of(parts: Mapping[int, Sequence[Row]]) -> pa.Table:
    """The records of each partition, as columns to write."""
    rows = [(number, row) for number, of_partition in parts.items() for row in of_partition]
    return pa.table(
        {
            "key": pa.array([_bytes(row.key) for _, row in rows], pa.binary()),
            "value": pa.array([_bytes(row.value) for _, row in rows], pa.binary()),
            "partition": pa.array([number for number, _ in rows], pa.int32()),
            "timestamp": pa.array([row.at_us for _, row in rows], pa.int64()).cast(TIMESTAMP),
            "headers": pa.array([[{"key": _NAME, "value": row.name.encode()}] for _, row in rows], HEADERS),
        }
    )


def rows_of(batch: pa.RecordBatch) -> Iterator[tuple[int, Row]]:
    """The records of a batch with `COLUMNS`, each with its offset."""
    times = batch.column(3).cast(pa.int64()).to_pylist()
    offsets, keys, values, headers = (batch.column(at).to_pylist() for at in (0, 1, 2, 4))
    for offset, key, value, at_us, (header,) in zip(offsets, keys, values, times, headers, strict=True):
        yield offset, Row(_text(key), _text(value), header["value"].decode(), at_us)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(body: bytes | None) -> str | None:
    return None if body is None else body.decode()
