"""Chooses the records of a batch that a page keeps: those that match a search, within the page's limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.client.describe.record_rows import HEADER_COST
from sparklog.coordinator.page.records.masks import Mask
from sparklog.coordinator.page.records.record_query import Order, RecordQuery
from sparklog.core.row_offsets import Int64Array


def matching(batch: pa.RecordBatch, query: RecordQuery, mask: Mask) -> pa.RecordBatch:
    """The records that match both `find` and `key` of the query, as far as these are set. Masked parts never match."""
    matches: Any = None
    if query.find:
        columns = [*(() if mask.hides_values else ("value",)), *(() if mask.key else ("key",))]
        for name in columns:
            hits = pc.fill_null(pc.match_substring(batch.column(name), query.find.encode()), False)
            matches = hits if matches is None else pc.or_(matches, hits)
    if query.searches_key:
        keys = batch.column("key")
        wanted = query.wanted_key
        hits = keys.is_null() if wanted is None else pc.fill_null(pc.equal(keys, pa.scalar(wanted, keys.type)), False)
        hits = pa.repeat(False, batch.num_rows) if mask.key else hits
        matches = hits if matches is None else pc.and_(matches, hits)
    if query.searches and matches is None:
        return batch.slice(0, 0)
    return batch if matches is None else batch.filter(matches)


def trimmed(records: pa.Table, most: int, most_bytes: int, *, last: bool) -> pa.Table:
    """Copy the first records, or the last ones if `last`: as many as the limits allow, but at least one.

    `most` limits the number of records, `most_bytes` the sum of their sizes, with HEADER_COST for each header. A slice
    instead of a copy would keep the whole batch in memory.
    """
    rows = records.num_rows
    own = sizes(records, HEADER_COST)
    total = np.cumsum(own[::-1] if last else own)
    count = min(rows, most, max(1, int(np.searchsorted(total, most_bytes, side="right"))))
    chosen = np.arange(rows - count, rows) if last else np.arange(count)
    return records.take(pa.array(chosen, pa.int64()))


def ordered(records: Sequence[pa.Table], order: Order) -> pa.Table | None:
    """Sort the records for the page: by offset if they are of one partition, else by time. None without records."""
    if not records:
        return None
    joined = pa.concat_tables(records)
    several = len(joined.column("partition").unique()) > 1
    names = ("timestamp", "partition", "offset") if several else ("offset",)
    direction = "descending" if order is Order.NEWEST else "ascending"
    return joined.sort_by([(name, direction) for name in names])


def sizes(records: pa.Table | pa.RecordBatch, header_bytes: int = 0) -> Int64Array:
    """The size of each record in bytes: of key, value and headers together. Each header counts `header_bytes` more."""
    total = np.zeros(records.num_rows, dtype=np.int64)
    for name in ("key", "value"):
        total += _lengths(records.column(name))
    headers = records.column("headers")
    if isinstance(headers, pa.ChunkedArray):
        headers = headers.combine_chunks()
    if headers.null_count < len(headers):
        flat = headers.flatten()
        ends = np.cumsum(pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False))
        parts = sum(_lengths(flat.field(name)) for name in ("key", "value")) + header_bytes
        before = np.concatenate([[0], np.cumsum(parts)])
        total += before[ends] - before[np.concatenate([[0], ends[:-1]])]
    return total


def _lengths(values: Any) -> Int64Array:
    lengths: Int64Array = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths
