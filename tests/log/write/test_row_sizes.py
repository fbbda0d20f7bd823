from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.errors import RecordTooLarge
from sparklog.log.kafka_columns import canonical
from sparklog.log.stored_schema import RAW
from sparklog.log.write.row_sizes import check_sizes, cumulative_bytes, raw_sums
from tests.log.record_strategies import WRITTEN, records


def rows(**columns: Any) -> pa.RecordBatch:
    length = len(next(iter(columns.values())))
    return canonical(pa.record_batch({"value": pa.array([b"v"] * length), **columns}))


def size_of(row: dict[str, Any]) -> int:
    headers = sum(len(pair["key"].encode()) + len(pair["value"] or b"") for pair in row["headers"] or ())
    return len(row["key"] or b"") + len(row["value"] or b"") + headers


@given(st.lists(records(3), max_size=30), st.integers(0, 10))
def test_sizes_are_those_of_key_value_and_headers(written: list[dict[str, Any]], skipped: int):
    batch = canonical(pa.RecordBatch.from_pylist(written, schema=WRITTEN)).slice(skipped)
    assert np.diff(cumulative_bytes(batch, RAW)).tolist() == [size_of(row) for row in batch.to_pylist()]


def test_the_raw_size_of_rows_is_the_same_in_a_slice_of_a_batch():
    batch = rows(key=[b"a", b"bb", b"ccc"])
    sums = raw_sums(batch.slice(1), RAW)
    assert int(sums[0]) > 0
    assert int(sums[-1] - sums[0]) == (2 + 1 + 16) + (3 + 1 + 16)


def test_record_over_the_limit_is_named_with_its_key_and_size():  # M: S-06
    batch = rows(key=[b"a", b"long" * 50], value=[b"1" * 10, b"2" * 1000])
    with pytest.raises(RecordTooLarge) as caught:
        check_sizes(batch, RAW, "orders", 1_000)
    assert "topic orders, key b'longlong" in caught.value.message
    assert "wanted at most 1,000 bytes" in caught.value.message
    assert "found 1,200" in caught.value.message
    assert len(caught.value.message) < 250


# M: S-06
def test_record_of_exactly_the_limit_passes():
    check_sizes(rows(key=[b"k" * 10], value=[b"v" * 90]), RAW, "orders", 100)


def test_a_time_that_python_cannot_show_does_not_hide_the_size():
    late = pa.array([1 << 60], pa.int64()).view(RAW.arrow.field("timestamp").type)
    with pytest.raises(RecordTooLarge, match="found 500"):
        check_sizes(rows(value=[b"v" * 500], timestamp=late), RAW, "orders", 100)


def test_headers_count_towards_the_size():
    headers = pa.array([[{"key": "abc", "value": b"d"}]])
    with pytest.raises(RecordTooLarge, match="found 5"):
        check_sizes(rows(headers=headers), RAW, "orders", 4)


def test_bytes_under_a_null_do_not_make_a_record_too_large():
    hidden = pa.Array.from_buffers(
        pa.binary(),
        1,
        [pa.py_buffer(b"\0"), pa.py_buffer(np.array([0, 999], np.int32).tobytes()), pa.py_buffer(b"x" * 999)],
    )
    check_sizes(canonical(pa.record_batch({"value": hidden})), RAW, "orders", 100)
