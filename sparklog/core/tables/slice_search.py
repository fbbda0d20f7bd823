"""Finds the slices at many offsets of any partitions at once: each block is searched once for all offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from sparklog.core.tables.column_blocks import Block, Column
from sparklog.core.tables.slice_table import DTYPES, SliceTable

NO_SLICE: Final = 2**63 - 1  # as the start of a slice: there is none
FOUND: Final = ("start", "end", "object_number", "min_timestamp_us", "max_timestamp_us", "append_time_ms")


def slices_at(table: SliceTable, keys: Column, offsets: Column) -> Mapping[str, Column]:
    """Find for each offset the slice that covers it, or else the first slice after it in the same partition.

    `keys`: the partition of each offset, as an integer (see `slice_table.partition_key`). Returns the columns FOUND of
    the slices, with one row for each offset, in the same order. `start` is NO_SLICE if the partition has no such slice.
    """
    best = {name: np.zeros(len(keys), dtype=DTYPES[name]) for name in FOUND}
    best["start"][:] = NO_SLICE
    if not len(keys):
        return best
    for block in (*table.blocks, *table.tail_in(np.unique(keys).tolist())):
        asked = np.flatnonzero(
            (keys >= block.columns["partition_key"][0]) & (keys <= block.columns["partition_key"][-1])
        )
        rows = _first_rows(block, keys[asked], offsets[asked])
        asked, rows = asked[rows >= 0], rows[rows >= 0]
        earlier = block.columns["start"][rows] < best["start"][asked]
        asked, rows = asked[earlier], rows[earlier]
        for name in FOUND:
            best[name][asked] = block.columns[name][rows]
    return best


def _first_rows(block: Block, keys: Column, offsets: Column) -> Column:
    """Return for each key the number of its first live row that ends after the key's offset, or -1 if there is none.

    One bisection finds all of them together: `end` ascends among the rows of a key, even if dead rows are included.
    """
    column, ends = block.columns["partition_key"], block.columns["end"]
    row, stop = np.searchsorted(column, keys), np.searchsorted(column, keys, side="right")
    high = stop.copy()
    while len(still := np.flatnonzero(row < high)):
        middle = (row[still] + high[still]) // 2
        after = ends[middle] > offsets[still]
        high[still[after]] = middle[after]
        row[still[~after]] = middle[~after] + 1
    if block.dead is not None:
        live = np.append(np.flatnonzero(~block.dead), block.rows)
        row = live[np.searchsorted(live, row)]
    return np.where(row < stop, row, -1)
