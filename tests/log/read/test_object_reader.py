from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.errors import Damaged, InvalidInput, KeyNotFound, RecordTooLarge
from sparklog.core.types import Offset, OffsetRange, Slice, TimestampSource
from sparklog.log.kafka_columns import DEFAULT_COLUMNS, READ_SCHEMA
from sparklog.log.read import object_reader, ranged_reads
from sparklog.log.read.object_reader import read_first, read_index, read_slice
from sparklog.log.write.task_memory import MIB, WriterLimits
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from tests.kit.faulty_store import FaultyStore
from tests.log.compacted_log import compacted
from tests.log.record_strategies import batches
from tests.log.written_log import APPEND_TIME_MS, WrittenLog, arguments, empty_store, times_log, write

EVERYTHING = OffsetRange(Offset(0), Offset(1 << 40))
PARTITIONS = 2


def read(log: WrittenLog, each: Slice, columns: Any = READ_SCHEMA.names, store: ObjectStore | None = None) -> pa.Table:
    parts = read_slice(
        store or log.store, log.key(each), log.objects[each.object_number], each, EVERYTHING, "orders", columns
    )
    return pa.Table.from_batches(
        [part for _, part in parts], schema=pa.schema([READ_SCHEMA.field(name) for name in columns])
    )


def stored_rows(log: WrittenLog, partition: int) -> list[dict[str, Any]]:
    """A full scan by plain Arrow: the rows of a partition as its objects hold them, with offsets counted up."""
    rows: list[dict[str, Any]] = []
    for each in log.partition(partition):
        reader = pa.ipc.open_file(pa.py_buffer(log.store.get(log.key(each))))
        for number in range(each.first_batch, each.first_batch + each.batches):
            rows += reader.get_batch(number).to_pylist()
    return [
        {**row, "topic": "orders", "partition": partition, "offset": at, "timestampType": 0}
        for at, row in enumerate(rows)
    ]


@given(batches(PARTITIONS), st.data())
def test_any_range_of_any_columns_equals_a_full_scan(given_batches, data: st.DataObject):  # M: S-04
    log = write(empty_store(), given_batches, PARTITIONS)
    for partition in range(PARTITIONS):
        model = stored_rows(log, partition)
        start = data.draw(st.integers(0, len(model) + 1))
        end = data.draw(st.integers(start, len(model) + 2))
        columns = data.draw(st.permutations(READ_SCHEMA.names).flatmap(prefixes))
        table = log.read(partition, start, end, columns)
        assert table.to_pylist() == [{name: row[name] for name in columns} for row in model[start:end]]


def prefixes(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.integers(1, len(names)).map(lambda length: list(names[:length]))


@given(batches(PARTITIONS, max_batches=3))
def test_look_up_of_every_offset_equals_a_full_scan(given_batches):  # M: S-04
    log = write(empty_store(), given_batches, PARTITIONS)
    for partition in range(PARTITIONS):
        for row in stored_rows(log, partition):
            assert log.read(partition, row["offset"], row["offset"] + 1).to_pylist() == [row]


def test_batches_have_exactly_the_schema_of_sparks_kafka_source():
    log = times_log([1, 2, 3])
    _, batch = next(read_slice(*arguments(log), EVERYTHING, "orders", DEFAULT_COLUMNS))
    assert batch.schema.equals(pa.schema(list(READ_SCHEMA)[:7]), check_metadata=True)
    batch.validate(full=True)


def test_batches_come_as_stored_and_are_cut_at_the_ends_only():
    log = times_log(list(range(24)), records_per_batch=4)
    found = list(read_slice(*arguments(log), OffsetRange(Offset(2), Offset(23)), "orders", ["offset", "value"]))
    parts = [part for _, part in found]
    assert [behind - 1 for behind, _ in found] == [part["offset"][-1].as_py() for part in parts]
    index = read_index(*arguments(log)[:3])
    stored = index.records.tolist()
    assert len(stored) > 2
    assert [part.num_rows for part in parts] == [stored[0] - 2, *stored[1:-1], stored[-1] - 1]
    assert [each for part in parts for each in part["offset"].to_pylist()] == list(range(2, 23))


def test_a_range_outside_of_the_slice_is_empty_and_reads_nothing():
    log = times_log([1, 2, 3])
    watched = FaultyStore(log.store)
    rest = arguments(log)[1:]
    assert list(read_slice(watched, *rest, OffsetRange(Offset(3), Offset(9)), "orders", DEFAULT_COLUMNS)) == []
    assert list(read_slice(watched, *rest, OffsetRange(Offset(1), Offset(1)), "orders", DEFAULT_COLUMNS)) == []
    assert watched.calls == []


def test_columns_that_the_chain_knows_read_no_bytes():
    log = times_log(list(range(100)), source=TimestampSource.APPEND_TIME)
    watched = FaultyStore(log.store)
    columns = ["offset", "timestampType", "topic", "partition", "timestamp"]
    rows = [row for each in log.slices for row in read(log, each, columns, watched).to_pylist()]
    assert [row["offset"] for row in rows] == list(range(100))
    assert watched.calls == []


def test_only_the_batches_of_the_range_are_read_and_the_index_once():
    log = times_log(list(range(60)), records_per_batch=5)
    each = log.slices[0]
    watched = FaultyStore(log.store)
    index = read_index(*arguments(log)[:3])
    for _ in range(2):
        list(read_slice(watched, *arguments(log)[1:], OffsetRange(Offset(7), Offset(8)), "orders", ["value"]))
    batch = int(np.searchsorted(index.first_record, 7, side="right")) - 1
    start = int(index.position[batch])
    assert watched.ranges == [(log.key(each), start, start + int(index.length[batch]))] * 2
    assert watched.count("get") == 0


def test_neighbouring_batches_share_reads_of_about_8_mib():
    rows = pa.record_batch({"value": pa.array([np.random.default_rng(3).bytes(1 << 16) for _ in range(320)])})
    log = write(empty_store(), [rows], 1, compression="none", limits=WriterLimits())
    watched = FaultyStore(log.store)
    assert read(log, log.slices[0], ["value"], watched).num_rows == 320
    lengths = [end - start for _, start, end in watched.ranges]
    assert len(lengths) == 3
    assert max(lengths) <= 8 * MIB
    assert sum(lengths) == log.slices[0].length


@pytest.mark.parametrize(
    ("source", "timestamp_us", "kind"),
    [
        (TimestampSource.CREATE_TIME, 7, 0),
        (TimestampSource.APPEND_TIME, APPEND_TIME_MS * 1000, 1),
        (TimestampSource.APPEND_TIME_IN_COLUMN, 7, 1),
    ],
)
def test_timestamp_and_its_type_follow_the_slice(source: TimestampSource, timestamp_us: int, kind: int):
    table = read(log := times_log([7, 7], source=source), log.slices[0], ["timestamp", "timestampType"])
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [timestamp_us] * 2
    assert table["timestampType"].to_pylist() == [kind] * 2


def test_unknown_column_is_refused():
    log = times_log([1])
    with pytest.raises(InvalidInput, match="did you mean offset"):
        read(log, log.slices[0], ["offsets"])


# M: S-08
def test_uncompressed_values_are_views_of_what_the_store_gave():
    log = times_log(list(range(50)), compression="none")
    whole = pa.py_buffer(log.store.get(log.key(log.slices[0])))
    for _, part in read_slice(*arguments(log), EVERYTHING, "orders", ["value"]):
        assert whole.address <= part["value"].buffers()[2].address < whole.address + whole.size


# ---- damage ---------------------------------------------------------------------------------------


def replaced(log: WrittenLog, key: str, body: bytes | None, name: str) -> MemoryStore:
    """A store under a name of its own, so that no cached index is right for it, with one object other or gone."""
    store = MemoryStore(f"memory://damaged/{name}")
    for stored in list(store.list_keys("")):
        store.delete(stored.key)
    for stored in log.store.list_keys(""):
        if stored.key != key:
            store.put_if_absent(stored.key, log.store.get(stored.key))
        elif body is not None:
            store.put_if_absent(key, body)
    return store


def small_log(compression: str = "none") -> WrittenLog:
    """One object of two partitions, a few batches, some headers."""
    rows = pa.record_batch(
        {
            "key": pa.array([None, b"a", b"b", b"cc"] * 3),
            "value": pa.array([b"v" * number for number in range(12)]),
            "headers": pa.array([None, [], [{"key": "h", "value": b"1"}], None] * 3),
            "timestamp": pa.array(range(12), pa.timestamp("us", "UTC")),
            "partition": pa.array([0] * 5 + [1] * 7),
        }
    )
    return write(empty_store(), [rows], 2, compression=compression)


def small_compacted_log() -> WrittenLog:
    """One compacted segment of four records, without the third."""
    dense = small_log()
    dense.slices = dense.partition(0)
    whole = [offset for offset in range(dense.slices[-1].end) if offset != 2]
    return compacted(dense, whole, compression="none")


SMALL_LOGS = pytest.mark.parametrize("made", [small_log, small_compacted_log])


def right_rows(log: WrittenLog) -> list[pa.Table]:
    """Those of each slice, without damage."""
    return [read(log, each) for each in log.slices]


def assert_named_damage_or_right_rows(
    log: WrittenLog, right: Sequence[pa.Table], damaged: ObjectStore, key: str
) -> int:
    """How many of the slices were refused."""
    refused = 0
    for each, rows in zip(log.slices, right, strict=True):
        message = ""
        try:
            found = read(log, each, READ_SCHEMA.names, damaged)
        except Damaged as error:
            message = error.message
        if message:
            assert key in message
            refused += 1
        else:
            assert found.equals(rows)
    return refused


# M: F-04
@SMALL_LOGS
def test_any_flipped_bit_of_an_object_is_named_or_harmless(made: Callable[[], WrittenLog]):
    log = made()
    key = log.key(log.slices[0])
    body = bytes(log.store.get(key))
    batch_bytes = sum(each.length for each in log.slices)
    right, refused = right_rows(log), 0
    for byte in range(len(body)):
        other = bytearray(body)
        other[byte] ^= 1 << byte % 8
        damaged = replaced(log, key, bytes(other), f"flip-{byte % 2}")
        refused += assert_named_damage_or_right_rows(log, right, damaged, key)
    assert refused == batch_bytes  # each byte of a batch is covered, and belongs to one slice


# M: F-04
@SMALL_LOGS
def test_any_cut_of_an_object_is_named_or_harmless(made: Callable[[], WrittenLog]):
    log = made()
    key = log.key(log.slices[0])
    body, right = bytes(log.store.get(key)), right_rows(log)
    for length in range(len(body)):
        refused = assert_named_damage_or_right_rows(log, right, replaced(log, key, body[:length], "cut"), key)
        assert refused == sum(length < each.position + each.length for each in log.slices)


_numbers = count(1)


def fresh_name() -> str:
    return f"index-{next(_numbers)}"


# M: F-05
def test_any_damaged_index_is_rebuilt_from_its_object():
    log = small_log()
    key = index_key(log.key(log.slices[0]))
    body, right = bytes(log.store.get(key)), right_rows(log)
    for byte in range(0, len(body), 3):
        flipped = bytearray(body)
        flipped[byte] ^= 1 << byte % 8
        for other in (bytes(flipped), body[:byte], body + b"\0" * (byte + 1)):
            assert assert_named_damage_or_right_rows(log, right, replaced(log, key, other, fresh_name()), key) == 0


@given(st.data(), st.sampled_from(["zstd", "lz4"]))
def test_damage_of_compressed_objects_is_named_or_harmless(data: st.DataObject, compression: str):
    rows = pa.record_batch({"value": pa.array([b"%d" % number * 20 for number in range(1_500)])})
    log = write(empty_store(), [rows], 1, compression=compression, limits=WriterLimits(full_batch_bytes=30_000))
    key = log.key(log.slices[0])
    body = bytearray(log.store.get(key))
    body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert_named_damage_or_right_rows(log, right_rows(log), replaced(log, key, bytes(body), "compressed"), key)


# M: F-05
@SMALL_LOGS
def test_missing_index_is_rebuilt_from_its_object(made: Callable[[], WrittenLog]):
    log = made()
    damaged = replaced(log, index_key(log.key(log.slices[0])), None, fresh_name())
    assert assert_named_damage_or_right_rows(log, right_rows(log), damaged, "") == 0


def bounded(log: WrittenLog, store: ObjectStore, most_bytes: int) -> list[pa.RecordBatch]:
    rest = arguments(log)[1:]
    return [batch for _, batch in read_slice(store, *rest, EVERYTHING, "orders", ["value"], most_bytes=most_bytes)]


def test_an_object_above_the_bound_is_not_fetched_to_rebuild_its_index():
    log = small_log()
    key, size_bytes = log.key(log.slices[0]), log.objects[0].object.size_bytes
    store = replaced(log, index_key(key), None, fresh_name())
    watched = FaultyStore(store)
    wanted = rf"{key}, to rebuild the index: wanted at most .*, found {size_bytes:,} bytes"
    with pytest.raises(Damaged, match=wanted):  # as of this store: another one may have the index
        bounded(log, watched, size_bytes - 1)
    assert ("get", key) not in watched.calls
    assert bounded(log, watched, size_bytes)


def test_an_index_above_the_bound_is_not_fetched():
    log = small_log()
    store = FaultyStore(replaced(log, "", None, fresh_name()))
    with pytest.raises(RecordTooLarge, match=r"index .*: wanted at most"):
        bounded(log, store, log.objects[0].object.index_size_bytes - 1)
    assert store.calls == []


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("ahead", [0, 4])
def test_a_batch_above_the_bound_is_not_fetched(monkeypatch: pytest.MonkeyPatch, compression: str, ahead: int):
    monkeypatch.setattr(ranged_reads, "RANGED_READ_BYTES", 20_000)
    values = [bytes(100), random.Random(1).randbytes(100_000), bytes(100)]
    rows = pa.record_batch({"value": pa.array(values)})
    log = write(empty_store(), [rows], 1, compression=compression, limits=WriterLimits(full_batch_bytes=30_000))
    index = read_index(*arguments(log)[:3])
    large = (int(index.position[1]), int(index.position[1] + index.length[1]))
    assert index.records.tolist() == [1, 1, 1]
    store = FaultyStore(log.store, read_ahead=ahead)
    found = read_slice(store, *arguments(log)[1:], EVERYTHING, "orders", ["value"], most_bytes=90_000)
    assert next(found)[1]["value"].to_pylist() == values[:1]
    with pytest.raises(RecordTooLarge, match=r"offsets \[1, 2\): record batch at byte .*: wanted at most 90,000 bytes"):
        next(found)
    given = (*arguments(log)[1:], EVERYTHING, ["value"])
    assert len(read_first(store, *given, 90_000)) == 1
    assert large not in [(start, end) for _, start, end in store.ranges]
    assert len(read_first(store, *given)) == 3


def test_damaged_object_without_an_index_is_refused_whole():
    log = small_log()
    key = log.key(log.slices[0])
    body = bytearray(log.store.get(key))
    body[log.slices[0].position + 8] ^= 1
    damaged = replaced(log, key, bytes(body), fresh_name())
    damaged.delete(index_key(key))
    for each in log.slices:
        with pytest.raises(Damaged, match=f"object at byte 0 of {key}: wanted CRC32C"):
            read(log, each, ["key"], damaged)


def test_missing_object_is_key_not_found():
    log = small_log()
    key = log.key(log.slices[0])
    with pytest.raises(KeyNotFound, match=key):
        read(log, log.slices[0], ["key"], replaced(log, key, None, fresh_name()))


@pytest.mark.parametrize(
    "change", [{"first_batch": 1}, {"batches": 9}, {"position": 8}, {"length": 8}, {"batches": 0}], ids=str
)
def test_slice_that_its_index_does_not_know_is_refused(change: dict[str, int]):
    log = small_log()
    with pytest.raises(Damaged, match=f"index of {data_key(log.objects[0].object, 'orders')}: wanted"):
        read(log, msgspec.structs.replace(log.slices[0], **change), ["key"])


def test_a_batch_of_another_number_of_records_than_its_index_says_is_damage(monkeypatch: pytest.MonkeyPatch):
    """Else every record behind it would be given an offset that is not its own."""
    log = times_log([1, 2, 3, 4, 5, 6])
    (each,) = log.slices
    index = read_index(log.store, log.key(each), log.objects[each.object_number])
    assert index.records.tolist() == [3, 3]
    shifted = replace(index, records=np.array([4, 2], np.int32), first_record=np.array([0, 4]))
    monkeypatch.setattr(object_reader, "read_index", lambda *_: shifted)
    with pytest.raises(Damaged, match="wanted 4 records as its index says, found 3"):
        read(log, each, ["value"])
