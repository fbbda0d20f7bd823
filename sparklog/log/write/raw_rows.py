"""Rows before they are encoded: cut them and join them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sparklog.log.batch import with_all_columns
from sparklog.log.stored_schema import StoredSchema
from sparklog.log.write.row_sizes import Sizes


def cuts(sums: Sizes, limit_bytes: int, limit_rows: int | None = None) -> list[tuple[int, int]]:
    """Divide the rows, in order, into ranges [start, end) of about equal size within the limits.

    `sums`: from `raw_sums`. `limit_bytes`: maximum size of a range in raw bytes, more than 0; a larger row gets a range
    of its own. `limit_rows`: maximum number of rows in a range, more than 0 (None: no limit).
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


def joined(pieces: Sequence[pa.RecordBatch], schema: StoredSchema) -> pa.RecordBatch:
    """Join the rows of all pieces (at least one) into one batch, with columns of lists if any piece has them."""
    if len(pieces) == 1:
        return pieces[0]
    if any(piece.schema != pieces[0].schema for piece in pieces):
        pieces = [with_all_columns(piece, schema) for piece in pieces]
    return pa.concat_batches(pieces)
