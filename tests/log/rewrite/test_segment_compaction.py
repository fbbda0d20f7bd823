"""Compacted segments hold the records that were kept, each at its offset, and every reader finds them there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sparklog.core.errors import Damaged, InvalidInput
from sparklog.core.reading.plan import RangeToRead, SliceToRead
from sparklog.core.types import LeaderEpoch, Offset, StoreId, TimestampSource
from sparklog.log.index import decode_index, rebuild_index
from sparklog.log.kafka_columns import READ_SCHEMA
from sparklog.log.read import object_reader, ranged_reads
from sparklog.log.read.object_reader import read_index
from sparklog.log.read.scan import scan
from sparklog.log.read.time_lookup import first_in
from sparklog.log.rewrite.segment_compaction import compact
from sparklog.log.stored_schema import RAW_WITH_OFFSETS
from sparklog.log.write.segments_writer import Origin, SegmentsWriter
from sparklog.storage.keys import index_key
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import Fault, FaultyStore
from tests.log.compacted_log import compacted, held_by, named, rewritten, target
from tests.log.record_strategies import batches
from tests.log.written_log import (
    APPEND_TIME_MS,
    WrittenLog,
    empty_store,
    lanes_of,
    parts_of,
    range_of,
    stores_of,
    times_log,
    upload_ids,
    write,
)

TIMES = [(7 * at) % 40 for at in range(40)]
EVERY_THIRD = [*range(4, 36, 3)]


def rows_at(table: pa.Table, offsets: Sequence[int]) -> pa.Table:
    """The rows of a dense log, from offset 0 on, that are at these offsets."""
    return table.take(pa.array(offsets, pa.int64())) if len(offsets) else table.slice(0, 0)


def a_log(**given: object) -> WrittenLog:
    """Offsets 0 to 39 in slices of twenty, batches of three."""
    return times_log(TIMES, records_per_object=20, **given)  # type: ignore[arg-type]


@settings(max_examples=25)
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
    for each in sparse.slices:
        object_ = sparse.objects[each.object_number].object
        body, index = (sparse.store.get(key) for key in (sparse.key(each), index_key(sparse.key(each))))
        assert rebuild_index("o", body, object_) == decode_index("i", index, object_)
    columns = data.draw(st.permutations(READ_SCHEMA.names).map(lambda names: names[: len(names) // 2 + 1]))
    low, high = sorted(data.draw(st.tuples(st.integers(0, end), st.integers(0, end))))
    inside = [offset for offset in kept if low <= offset < high]
    assert sparse.read(0, low, high, columns).equals(rows_at(whole, inside).select(columns))
    again = sorted(data.draw(st.sets(st.sampled_from(kept), min_size=1)))  # compacted once more
    assert compacted(sparse, again).read(0, 0, end).equals(rows_at(whole, again))


@settings(max_examples=25)
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


# ---- what is written --------------------------------------------------------------------------------


def test_segments_are_cut_at_segment_bytes_and_cover_what_they_replace() -> None:
    numbers = [int(at * 7919 % 251) for at in range(600)]
    rows = pa.record_batch({"value": pa.array([bytes((at * 31 + n) % 256 for at in range(40)) for n in numbers])})
    made = rewritten(write(empty_store(), [rows], 1), range(1, 590, 2), 1_000)
    assert len(made.slices) > 3
    assert all(each.new.length <= 1_000 for each in made.slices)
    edges = [each.start for each in made.slices]
    assert edges == [0, *(each.end for each in made.slices[:-1])]
    assert made.slices[-1].end == 600
    assert [each.base_offset for each in made.objects] == edges


def test_a_segment_ends_where_the_leader_epoch_or_the_kind_of_timestamp_changes() -> None:
    log = times_log(list(range(50)), records_per_object=10)
    changes = [
        {"leader_epoch": LeaderEpoch(1)},
        {"leader_epoch": LeaderEpoch(2), "append_time_ms": 7},  # of which nothing is kept
        {"leader_epoch": LeaderEpoch(3), "append_time_ms": 8},
        {"leader_epoch": LeaderEpoch(3), "append_time_ms": 9},
        {"leader_epoch": LeaderEpoch(3), "append_time_ms": 5, "timestamp_source": TimestampSource.APPEND_TIME},
    ]
    log.slices = [msgspec.structs.replace(each, **change) for each, change in zip(log.slices, changes, strict=True)]
    made = rewritten(log, [3, 8, 25, 31, 32, 48])
    found = [(each.start, each.end, each.new.records, each.leader_epoch, each.append_time_ms) for each in made.slices]
    assert found == [(0, 9, 2, 1, APPEND_TIME_MS), (9, 33, 3, 3, 9), (33, 50, 1, 3, 5)]
    assert [each.timestamp_source for each in made.slices] == [0, 0, TimestampSource.APPEND_TIME_IN_COLUMN]
    last = made.slices[-1].new
    assert (last.min_timestamp_us, last.max_timestamp_us) == (5_000, 5_000)
    assert [each.leader_epoch for each in made.objects] == [1, 3, 3]


def test_a_compacted_segment_opens_with_plain_arrow_and_polars() -> None:  # M: S-02
    log = compacted(a_log(), EVERY_THIRD)
    body = log.store.get(log.key(log.slices[0]))
    whole = pa.ipc.open_file(pa.py_buffer(body)).read_all()
    assert whole.schema.equals(RAW_WITH_OFFSETS.arrow, check_metadata=True)
    assert whole["offset"].to_pylist() == pl.read_ipc(bytes(body))["offset"].to_list() == EVERY_THIRD


def test_batches_of_which_nothing_is_kept_are_not_read() -> None:
    log = a_log(compression="none")
    log.store = watched = FaultyStore(log.store)  # type: ignore[assignment]
    rewritten(log, [0, 39])
    first, last = (read_index(log.store, log.key(each), log.objects[each.object_number]).length for each in log.slices)
    assert len(first) > 2 < len(last)
    assert [end - start for _, start, end in watched.ranges] == [first[0], last[-1]]


@pytest.mark.parametrize("kept", [[], [-1, 3], [3, 40]])
def test_offsets_to_keep_lie_in_the_slices(kept: list[int]) -> None:
    with pytest.raises(InvalidInput, match=r"orders-0: wanted offsets to keep in \[0, 40\), at least one, found"):
        rewritten(a_log(), kept)


def test_an_offset_to_keep_that_no_record_has_is_refused() -> None:
    log = compacted(a_log(), EVERY_THIRD)
    with pytest.raises(Damaged, match="wanted 2 records to keep, found 1"):
        rewritten(log, [4, 5])


def test_a_gap_that_an_election_left_is_not_covered() -> None:
    log = a_log()
    with pytest.raises(InvalidInput, match="wanted slices without a gap, found one at offset 10"):
        rewritten(log, [3], parts=[msgspec.structs.replace(part, slice=_without_ten(part)) for part in parts_of(log)])


def _without_ten(part: SliceToRead) -> object:
    return msgspec.structs.replace(part.slice, end=Offset(10)) if part.slice.start == 0 else part.slice


def test_records_that_do_not_ascend_are_refused() -> None:
    log = a_log()
    made = compacted(log, EVERY_THIRD)
    stored = pa.ipc.open_file(pa.py_buffer(made.store.get(made.key(made.slices[0])))).get_batch(0)
    ids = upload_ids(5_000)
    with SegmentsWriter(target(), lanes_of(a=log.store), Offset(20), lambda: next(ids), RAW_WITH_OFFSETS) as writer:
        writer.begin_run(Origin.of(log.slices[0]), 0)
        writer.add(stored)
        with pytest.raises(ValueError, match="wanted records at or after offset 20, found 4"):
            writer.finish(Offset(40))


def test_rows_from_the_end_of_a_large_batch_are_joined_as_others_are() -> None:
    """Their size does not count the rows before them, which would make a batch of each."""
    log = a_log()
    values = [{"key": b"k", "value": b"v" * 10_000, "timestamp": 0, "offset": at} for at in range(200)]
    large = pa.RecordBatch.from_pylist(values, schema=RAW_WITH_OFFSETS.arrow)
    ids = upload_ids(6_000)
    with SegmentsWriter(target(), lanes_of(a=log.store), Offset(0), lambda: next(ids), RAW_WITH_OFFSETS) as writer:
        writer.begin_run(Origin.of(log.slices[0]), 0)
        for at in range(190, 200):
            writer.add(large.slice(at, 1))
        made = named(log, writer.finish())
    (segment,) = made.slices
    assert pa.ipc.open_file(pa.py_buffer(made.store.get(made.key(segment)))).num_record_batches == 1


# ---- what is read -----------------------------------------------------------------------------------


def scanned(
    parts: Sequence[SliceToRead], start: int, end: int, stores: object, columns: Sequence[str] = ("offset", "value")
) -> Iterator[int]:
    def never(plan: RangeToRead, at: Offset) -> RangeToRead:
        raise AssertionError("nothing is planned again")

    for batch in scan(range_of(parts, start, end), stores, columns, never):  # type: ignore[arg-type]
        assert batch.num_rows
        yield from batch["offset"].to_pylist()


def test_a_range_inside_a_batch_that_has_no_record_yields_nothing() -> None:  # M: S-03
    log = compacted(a_log(), EVERY_THIRD)
    assert list(scanned(parts_of(log), 5, 7, stores_of(log))) == []
    assert list(scanned(parts_of(log), 5, 8, stores_of(log))) == [7]


def test_an_append_time_that_only_the_chain_knows_is_that_of_the_first_record_left() -> None:  # M: S-05
    log = batches_of_two()
    log.slices = [msgspec.structs.replace(log.slices[0], timestamp_source=TimestampSource.APPEND_TIME)]
    for start, first in ((0, 4), (5, 7), (34, 34), (35, None)):
        assert first_in(parts_of(log), stores_of(log), "orders", APPEND_TIME_MS * 1000, Offset(start)) == first
        assert first_in(parts_of(log), stores_of(log), "orders", APPEND_TIME_MS * 1000 + 1, Offset(start)) is None


@pytest.fixture
def a_read_per_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged_reads, "RANGED_READ_BYTES", 1)


def batches_of_two(kept: Sequence[int] = EVERY_THIRD) -> WrittenLog:
    """A compacted log of one slice, with batches of two records."""
    log = a_log()
    made = compacted(log, kept)
    stored = pa.ipc.open_file(pa.py_buffer(made.store.get(made.key(made.slices[0])))).read_all()
    (stored,) = stored.combine_chunks().to_batches()
    ids = upload_ids(7_000)
    with SegmentsWriter(target(), lanes_of(a=log.store), Offset(0), lambda: next(ids), RAW_WITH_OFFSETS) as writer:
        writer.begin_run(Origin.of(log.slices[0]), APPEND_TIME_MS)
        for at in range(0, len(kept), 2):
            writer.add(stored.slice(at, 2))
            writer._encode_pending()
        return named(log, writer.finish(Offset(40)))


@pytest.mark.usefixtures("a_read_per_batch")
@pytest.mark.parametrize("at", [1, 2, 3])
def test_the_next_holder_goes_on_behind_the_records_that_the_first_one_gave(at: int) -> None:
    log = batches_of_two()
    failing = FaultyStore(log.store)
    stores = stores_of(log, b=failing)
    failing.plan(Fault.UNAVAILABLE, "get_ranges", skip=at - 1)
    assert list(scanned(held_by(log, "ba"), 0, 40, stores)) == EVERY_THIRD
    again = [offset for offset in EVERY_THIRD if offset != 13]
    stores = stores_of(log, b=failing)  # of which no failure is remembered
    failing.plan(Fault.UNAVAILABLE, "get_ranges", skip=at - 1)
    ids = upload_ids(9_000)
    made = compact(held_by(log, "ba"), np.array(again), target(), stores, lanes_of(a=log.store), lambda: next(ids))
    assert not failing.planned, "it was asked first"
    assert sum(each.new.records for each in made.slices) == len(again)


def test_offsets_alone_are_decoded_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    decodings = object_reader.decodings

    def watched(*given: object) -> object:
        decoded.append(given[5])
        return decodings(*given)  # type: ignore[arg-type]

    log = compacted(a_log(), EVERY_THIRD)
    monkeypatch.setattr(object_reader, "decodings", watched)
    assert log.read(0, 5, 30, ["offset", "partition"])["offset"].to_pylist() == [7, 10, 13, 16, 19, 22, 25, 28]
    assert decoded == [["offset"]]


def test_the_record_of_an_offset_takes_one_small_read() -> None:  # M: S-04
    log = batches_of_two()
    log.store = watched = FaultyStore(log.store)  # type: ignore[assignment]
    assert log.read(0, 16, 17, ["value"]).num_rows == 1
    ((_, start, end),) = watched.ranges
    assert end - start < log.slices[0].length


def test_a_sparse_slice_of_an_object_without_offsets_is_damage() -> None:
    log = a_log()
    log.slices = [msgspec.structs.replace(log.slices[0], end=Offset(30))]
    with pytest.raises(Damaged, match=r"wanted the offsets of 20 records, ascending in \[0, 30\), found no offsets"):
        log.read(0, 0, 30, ["offset"])


@pytest.mark.parametrize("change", [{"start": Offset(5)}, {"end": Offset(30)}])
def test_offsets_outside_their_slice_are_damage(change: dict[str, Offset]) -> None:
    log = compacted(a_log(), EVERY_THIRD)
    log.slices = [msgspec.structs.replace(log.slices[0], **change)]
    with pytest.raises(Damaged, match="wanted the offsets of 11 records, ascending in"):
        log.read(0, 0, 40, ["offset"])


@pytest.mark.parametrize("change", [(0, 3, 31), (0, 5, 34)])
def test_offsets_other_than_the_index_says_are_damage(
    monkeypatch: pytest.MonkeyPatch, change: tuple[int, int, int]
) -> None:
    log = compacted(a_log(), EVERY_THIRD)
    index = read_index(log.store, log.key(log.slices[0]), log.objects[-1])
    _, first, last = change
    shifted = replace(index, base_offset=np.array([first]), last_offset=np.array([last]))
    monkeypatch.setattr(object_reader, "read_index", lambda *_: shifted)
    with pytest.raises(Damaged, match=f"wanted ascending offsets from {first} to {last} as its index says"):
        log.read(0, 0, 40, ["offset"])


def test_records_that_compaction_took_at_the_end_of_a_slice_are_no_loss() -> None:
    """A read has passed the slice's last record when retention removes the slice, and the next object is gone."""
    log = compacted(a_log(), [4, 7, 13], parts=parts_of(a_log())[:1])
    first, second = parts_of(log)
    gone = MemoryStore("memory://written-log-without")
    for stored in list(gone.list_keys("")):
        gone.delete(stored.key)
    for stored in log.store.list_keys(""):
        if log.key(second.slice) not in stored.key:
            gone.put_if_absent(stored.key, log.store.get(stored.key))
    stores = stores_of(log)
    stores._open[StoreId("a")] = gone
    asked = []

    def replan(plan: RangeToRead, at: Offset) -> RangeToRead:
        asked.append(at)
        stores._open[StoreId("a")] = log.store
        renumbered = msgspec.structs.replace(second.object, number=99)
        return range_of([msgspec.structs.replace(second, object=renumbered)], max(at, 20), 40)

    found = [
        offset
        for batch in scan(range_of([first, second], 0, 40), stores, ["offset", "value"], replan)
        for offset in batch["offset"].to_pylist()
    ]
    assert found == [4, 7, 13, *range(20, 40)]
    assert asked == [20]
