"""The size of records before they are encoded, in bytes, and the limit for each: max.message.bytes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparklog.core.describe.readable import exact_amount
from sparklog.core.errors import RecordTooLarge
from sparklog.log.number_arrays import buffer_offsets
from sparklog.log.records_schema import RAW_SCHEMA

Sizes = npt.NDArray[np.int64]
HEADER_BYTES: Final = 8  # raw bytes of a header's offsets, on top of its key and value
ROW_BYTES: Final = 16  # raw bytes of timestamp and offsets, on top of key, value and headers
_SHOWN_KEY_CHARS = 50


def check_sizes(rows: pa.RecordBatch, topic: str, max_message_bytes: int) -> None:
    """Raise RecordTooLarge if key, value and headers of a record have more than `max_message_bytes` together."""
    sums = cumulative_bytes(rows)
    if len(sums) > 1 and int(np.diff(sums).max()) > max_message_bytes:
        _refuse_too_large(rows, sums, topic, max_message_bytes)


def cumulative_bytes(rows: pa.RecordBatch, at: npt.NDArray[np.int64] | None = None, header_bytes: int = 0) -> Sizes:
    """Return the bytes of keys, values and headers in the rows before each row number in `at`, as int64[len(at)].

    A row number is from 0 to the number of rows, which means the end. By default, `at` has all of them. Each header
    counts `header_bytes` more. The first element can differ from 0, so only differences matter. If a null key, value or
    header still has bytes in its buffer, they are counted too.
    """
    places: Any = slice(None) if at is None else at
    sums: Sizes = buffer_offsets(rows.column("key"))[places].astype(np.int64)
    sums += buffer_offsets(rows.column("value"))[places]
    headers = rows.column("headers") if "headers" in rows.schema.names else None
    if headers is not None and headers.null_count < len(headers):
        pairs = headers.values
        firsts = buffer_offsets(headers)[places]
        sums += buffer_offsets(pairs.field("key"))[firsts]
        sums += buffer_offsets(pairs.field("value"))[firsts]
        sums += header_bytes * firsts
    return sums


def raw_sums(rows: pa.RecordBatch) -> Sizes:
    """Return cumulative raw bytes, int64[rows + 1]: element j minus element i is the raw size of rows [i, j).

    The first element can differ from 0.
    """
    sums = cumulative_bytes(rows, header_bytes=HEADER_BYTES)
    sums += ROW_BYTES * np.arange(len(sums))
    return sums


def _refuse_too_large(rows: pa.RecordBatch, sums: Sizes, topic: str, max_message_bytes: int) -> None:
    """Raise RecordTooLarge for the first record that is too large.

    `sums` also count bytes that a null key, value or header still has in its buffer. Here those bytes don't count.
    """
    for row in np.flatnonzero(np.diff(sums) > max_message_bytes).tolist():
        key, value, headers, _ = (rows.column(name)[row].as_py() for name in RAW_SCHEMA.names)
        size = len(key or b"") + len(value or b"")
        size += sum(len((pair["key"] or "").encode()) + len(pair["value"] or b"") for pair in headers or () if pair)
        if size > max_message_bytes:
            shown = repr(key)
            raise RecordTooLarge(
                f"topic {topic}, key {shown if len(shown) <= _SHOWN_KEY_CHARS else shown[:_SHOWN_KEY_CHARS] + '…'}: "
                f"wanted at most {exact_amount(max_message_bytes)} of key, value and headers (max.message.bytes), "
                f"found {exact_amount(size)}"
            )
