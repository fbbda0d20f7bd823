"""Converts records to dicts, one for each record, as `sparklog consume --format json` prints them.

As Python objects, headers take far more memory than in Arrow, where an empty one takes 8 bytes. So a coordinator, whose
other work continues meanwhile, converts a few records at a time (`in_runs`), and none with very many headers
(`before_many_headers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.core.errors import RecordTooLarge
from sparklog.log.stored_schema import RAW
from sparklog.log.write.row_sizes import cumulative_bytes
from sparklog.wire.record_messages import MOST_HEADERS

HEADER_COST: Final = 200  # bytes of a header as Python objects, on top of its key and value
_ROW_COST: Final = 500
_RUN_BYTES: Final = 1 << 20

Shown = Callable[[bytes | None], str | bytes | None]


def record_rows(records: pa.RecordBatch | pa.Table, topic: str, key: Shown, value: Shown, header: Shown) -> list[Any]:
    """Convert records of one topic to dicts. `key`, `value` and `header` turn bytes of these fields into others."""
    stamps = records.column("timestamp").cast(pa.int64()).to_pylist()
    columns = [records.column(name).to_pylist() for name in ("partition", "offset", "key", "value", "headers")]
    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": stamp_us // 1000,
            "timestamp_us": stamp_us,
            "key": key(own_key),
            "value": value(own_value),
            "headers": [{"key": pair["key"], "value": header(pair["value"])} for pair in headers or ()],
        }
        for stamp_us, partition, offset, own_key, own_value, headers in zip(stamps, *columns, strict=True)
    ]


def before_many_headers(records: pa.RecordBatch, topic: str) -> Iterator[pa.RecordBatch]:
    """Yield the records; but only those before the first one with more than MOST_HEADERS headers, if there is one.

    Then raises RecordTooLarge, which names its offset. All records are of one partition.
    """
    counts = pc.fill_null(pc.list_value_length(records.column("headers")), 0).to_numpy(zero_copy_only=False)
    large = np.flatnonzero(counts > MOST_HEADERS)
    if not large.size:
        yield records
        return
    row = int(large[0])
    if row:
        yield records.slice(0, row)
    partition, offset = (records.column(name)[row].as_py() for name in ("partition", "offset"))
    raise RecordTooLarge(
        f"{topic}-{partition}: the record at offset {offset} has {counts[row]:,} headers, a coordinator reads at most "
        f"{MOST_HEADERS:,}: read it with a client, or continue at offset {offset + 1}"
    )


def in_runs(records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split the records into runs: each takes at most about _RUN_BYTES as Python objects, or has one record."""
    ends = cumulative_bytes(records, RAW, element_bytes=HEADER_COST)
    ends += _ROW_COST * np.arange(len(ends))
    start = 0
    while start < records.num_rows:
        end = max(start + 1, int(np.searchsorted(ends, ends[start] + _RUN_BYTES, side="right")) - 1)
        yield records.slice(start, end - start)
        start = end
