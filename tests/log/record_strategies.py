"""Hypothesis strategies for written rows: null and empty keys and values, repeated headers, times in no order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sparklog.log.stored_schema import HEADERS, TIMESTAMP

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WRITTEN = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("timestamp", TIMESTAMP),
        ("partition", pa.int32()),
    ]
)

headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(["a", "b", "ключ"]), "value": st.none() | st.binary(max_size=5)}),
    max_size=3,
)
times = st.integers(0, 50).map(lambda seconds: EPOCH + timedelta(seconds=seconds))


def records(partitions: int) -> st.SearchStrategy[dict[str, Any]]:
    """One record; its partition may be null."""
    return st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=9),
            "value": st.none() | st.binary(max_size=60),
            "headers": headers,
            "timestamp": st.none() | times,
            "partition": st.none() | st.integers(0, partitions - 1),
        }
    )


def batches(partitions: int, max_batches: int = 6, max_records: int = 40) -> st.SearchStrategy[list[pa.RecordBatch]]:
    """Batches of records as a writer hands them over; some have no headers at all, some no partition column."""

    def batch(rows: list[dict[str, Any]], dropped: set[str]) -> pa.RecordBatch:
        whole = pa.RecordBatch.from_pylist(rows, schema=WRITTEN)
        return whole.select([name for name in WRITTEN.names if name not in dropped])

    one = st.builds(
        batch,
        st.lists(records(partitions), max_size=max_records),
        st.sets(st.sampled_from(["key", "headers", "timestamp", "partition"])),
    )
    return st.lists(one, max_size=max_batches)
