"""Rows before they are encoded: compute their sizes, cut them and join them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from sparklog.log.batch import with_headers
from sparklog.log.write.routing import HEADER_BYTES, Sizes, cumulative_bytes

ROW_BYTES: Final = 16  # raw bytes of timestamp and offsets, on top of key, value and headers


def raw_sums(rows: pa.RecordBatch) -> Sizes:
    """Return cumulative raw bytes, int64[rows + 1]: element j minus element i is the raw size of rows [i, j).

    The first element can differ from 0.
    """
    sums = cumulative_bytes(rows, header_bytes=HEADER_BYTES)
    sums += ROW_BYTES * np.arange(len(sums))
    return sums


def cuts(sums: Sizes, limit_bytes: int, limit_rows: int | None = None) -> list[tuple[int, int]]:
    """Divide the rows, in order, into ranges [start, end) of about equal size within the limits.

    A row larger than `limit_bytes` gets a range of its own. `sums`: from `raw_sums`. `limit_rows`: the most rows of a
    range (None: no limit).
    """
    rows = len(sums) - 1
    ranges = []
    start = 0
    while start < rows:
        rest = int(sums[rows] - sums[start])
        aim = -(-rest // max(1, -(-rest // limit_bytes)))
        end = int(np.searchsorted(sums, sums[start] + aim, side="left"))
        end = min(max(end, start + 1), rows)
        if sums[end] - sums[start] > limit_bytes and end - start > 1:
            end -= 1
        if limit_rows is not None:
            end = min(end, start + limit_rows)
        ranges.append((start, end))
        start = end
    return ranges


def joined(pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join the rows of all pieces (at least one) into one batch, with headers if any piece has them."""
    if len(pieces) == 1:
        return pieces[0]
    if len({piece.num_columns for piece in pieces}) > 1:
        pieces = [with_headers(piece) for piece in pieces]
    return pa.concat_batches(pieces)
