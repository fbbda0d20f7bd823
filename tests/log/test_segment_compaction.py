"""Compacted segments hold the records that were kept, each at its offset, and every reader finds them there."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sparklog.core.types import Offset, TimestampSource
from sparklog.log.records_schema import READ_SCHEMA
from sparklog.log.time_lookup import first_in
from tests.log.compacted_log import compacted
from tests.log.record_strategies import batches
from tests.log.written_log import APPEND_TIME_MS, WrittenLog, empty_store, parts_of, stores_of, times_log, write


def rows_at(table: pa.Table, offsets: Sequence[int]) -> pa.Table:
    """The rows of a dense log, from offset 0 on, that are at these offsets."""
    return table.take(pa.array(offsets, pa.int64())) if len(offsets) else table.slice(0, 0)


def a_log(times: int = 40, **given: object) -> WrittenLog:
    """Records in slices of twenty, batches of three."""
    return times_log([(7 * at) % times for at in range(times)], records_per_object=20, **given)


@settings(max_examples=40)
@given(st.data())
def test_every_range_of_a_compacted_log_has_what_was_kept(data: st.DataObject) -> None:  # M: S-04
    given_batches = data.draw(batches(1))
    log = write(empty_store(), given_batches, 1)
    assume(log.slices)
    end = log.slices[-1].end
    whole = log.read(0, 0, end)
    kept = sorted(data.draw(st.sets(st.integers(0, end - 1), min_size=1)))
    sparse = compacted(log, kept, data.draw(st.sampled_from([700, 2_000, 1 << 30])))
    assert [each.start for each in sparse.slices] == [0, *(each.end for each in sparse.slices[:-1])]
    assert sparse.slices[-1].end == end
    columns = data.draw(st.permutations(READ_SCHEMA.names).map(lambda names: names[: len(names) // 2 + 1]))
    low, high = sorted(data.draw(st.tuples(st.integers(0, end), st.integers(0, end))))
    inside = [offset for offset in kept if low <= offset < high]
    assert sparse.read(0, low, high, columns).equals(rows_at(whole, inside).select(columns))
    again = sorted(data.draw(st.sets(st.sampled_from(kept), min_size=1)))  # compacted once more
    assert compacted(sparse, again).read(0, 0, end).equals(rows_at(whole, again))


@settings(max_examples=40)
@given(st.data())
def test_a_look_up_by_time_equals_a_plain_model(data: st.DataObject) -> None:  # M: S-05
    times = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=30))
    source = data.draw(st.sampled_from([TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME]))
    kept = sorted(data.draw(st.sets(st.integers(0, len(times) - 1), min_size=1)))
    log = compacted(times_log(times, records_per_object=10, source=source), kept, 1_500)
    start, at_us = Offset(data.draw(st.integers(0, len(times)))), data.draw(st.integers(0, 31))
    if source is TimestampSource.APPEND_TIME:
        at_us += APPEND_TIME_MS * 1000 - 15
        times = [APPEND_TIME_MS * 1000] * len(times)
    model = [offset for offset in kept if offset >= start and times[offset] >= at_us]
    found = first_in(parts_of(log), stores_of(log), "orders", at_us, start)
    assert found == (model[0] if model else None)
