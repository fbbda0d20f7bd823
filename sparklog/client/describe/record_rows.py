"""Converts records to dicts, one for each record, as `sparklog consume --format json` prints them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

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
