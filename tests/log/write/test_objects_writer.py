from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.errors import (
    KeyExists,
    OutcomeUnknown,
    RecordTooLarge,
    SparklogError,
    StoreFull,
    UnknownTopicOrPartition,
)
from sparklog.core.types import ObjectKind
from sparklog.log.index import decode_index
from sparklog.log.kafka_columns import canonical
from sparklog.log.write.raw_rows import cuts
from sparklog.log.write.task_memory import MIB, WriterLimits
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.local.store import LocalStore
from sparklog.storage.memory import MemoryStore
from tests.core.producing.java_murmur2 import partition_for_key
from tests.kit.faulty_store import ALWAYS, WRITES, Fault, FaultyStore
from tests.log.peak_memory import LOADS, SLOW_STORE
from tests.log.record_strategies import EPOCH, WRITTEN, batches
from tests.log.written_log import HOLDERS, TASK_CLOCK_US, TaskWriter, empty_store, name, upload_ids, write, writer

EVERYTHING = 1 << 40


@pytest.fixture
def store() -> MemoryStore:
    return empty_store()


def numbered(count: int, first: int = 0, **columns: Any) -> pa.RecordBatch:
    """Records whose values are their numbers, in 20 bytes."""
    values = [b"%020d" % number for number in range(first, first + count)]
    return pa.record_batch({"value": pa.array(values), **columns})


@given(batches(4), st.sampled_from(["zstd", "lz4", "none"]))
def test_every_record_is_in_exactly_one_slice_in_the_order_it_was_added(given_batches, compression: str):
    added = [{**dict.fromkeys(WRITTEN.names), **row} for each in given_batches for row in each.to_pylist()]
    for number, row in enumerate(added):
        row["value"] = b"%d of " % number + (row["value"] or b"")
    columns = iter([row["value"] for row in added])
    told_apart = [
        each.set_column(
            each.schema.get_field_index("value"), "value", pa.array([next(columns) for _ in range(len(each))])
        )
        for each in given_batches
        if len(each)
    ]
    log = write(empty_store(), told_apart, 4, compression=compression)
    left: dict[int, list[dict[str, Any]]] = {
        partition: log.read(partition, 0, EVERYTHING).to_pylist() for partition in range(4)
    }
    assert sum(len(rows) for rows in left.values()) == len(added)
    for row in added:
        (found,) = [
            partition for partition in range(4) if left[partition] and left[partition][0]["value"] == row["value"]
        ]
        read = left[found].pop(0)
        assert (read["key"], read["headers"], read["partition"]) == (row["key"], row["headers"], found)
        assert read["timestamp"] == row["timestamp"] or (
            row["timestamp"] is None and read["timestamp"] == EPOCH + timedelta(microseconds=TASK_CLOCK_US)
        )
        if row["partition"] is not None:
            assert found == row["partition"]
        elif row["key"] is not None:
            assert found == partition_for_key(row["key"], 4)


def test_objects_hold_partitions_in_ascending_order_each_in_one_range(store: MemoryStore):
    keys = pa.array([b"%d" % number for number in range(2_000)])
    with writer(store, 6) as open_writer:
        open_writer.add(canonical(numbered(2_000, key=keys)))
        written = open_writer.finish()
    assert len(written) > 3
    for at, (new, slices) in enumerate(written):
        index = decode_index("i", store.get(index_key(data_key(new, "orders"))), new)
        assert [each.partition for each in slices] == sorted({each.partition for each in slices})
        for each in slices:
            assert each.object_index == at
            rows = np.s_[each.first_batch : each.first_batch + each.batches]
            assert set(index.partition[rows].tolist()) == {each.partition}
            assert index.position[rows][0] == each.position
            assert (index.position[rows] + index.length[rows])[-1] == each.position + each.length
            assert index.records[rows].sum() == each.records
            assert index.min_timestamp_us[rows].min() == each.min_timestamp_us
            assert index.max_timestamp_us[rows].max() == each.max_timestamp_us
        for left, right in pairwise(slices):
            assert (left.position + left.length, left.first_batch + left.batches) == (right.position, right.first_batch)


def test_what_is_named_is_what_is_stored(store: MemoryStore):
    with writer(store, 1) as open_writer:
        open_writer.add(canonical(numbered(1_000)))
        written = open_writer.finish()
    keys = []
    for new, _ in written:
        assert (new.kind, new.n0, new.topic_id, new.holders) == (ObjectKind.APPEND, 7, 5, HOLDERS)
        key = data_key(new, "orders")
        assert store.size(key) == new.size_bytes
        assert store.size(index_key(key)) == new.index_size_bytes
        keys += [key, index_key(key)]
    assert sorted(keys) == [stored.key for stored in store.list_keys("")]


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_each_object_opens_with_plain_arrow_and_polars(tmp_path: Path, compression: str):  # M: S-02
    store = LocalStore(str(tmp_path))
    log = write(store, [numbered(2_000, key=pa.array([b"%d" % (n % 97) for n in range(2_000)]))], 3)
    rows = 0
    for each in log.objects:
        path = tmp_path / data_key(each.object, "orders")
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
            table.validate(full=True)
        frame = pl.read_ipc(path)
        assert frame["value"].to_list() == table["value"].to_pylist()
        rows += frame.height
    assert rows == 2_000


def test_batches_fill_up_over_several_gathers_and_stay_under_the_limit(store: MemoryStore):
    limits = WriterLimits(gather_rows=50, gather_rows_per_partition=1, full_batch_bytes=4_000)
    with writer(store, 2, limits=limits) as open_writer:
        for first in range(0, 2_000, 50):
            open_writer.add(canonical(numbered(50, first, partition=pa.array([0, 1] * 25))))
        ((new, slices),) = open_writer.finish()
    index = decode_index("i", store.get(index_key(data_key(new, "orders"))), new)
    raw = index.records * (20 + 16)
    for each in slices:
        full = raw[each.first_batch : each.first_batch + each.batches - 1]
        assert (full >= 4_000).all()
    assert raw.max() <= limits.largest_batch_bytes


def test_a_record_larger_than_a_batch_has_one_of_its_own(store: MemoryStore):
    sizes = [10, 5_000, 10, 20, 7_000, 6_000, 30]
    rows = pa.record_batch({"value": pa.array([b"x" * size for size in sizes])})
    log = write(store, [rows], 1)
    assert [len(row["value"]) for row in log.read(0, 0, EVERYTHING).to_pylist()] == sizes
    ends = [each for part in log.slices for each in [part.end]]
    assert ends[-1] == len(sizes)


@given(
    st.lists(st.integers(0, 500), max_size=60),
    st.integers(1, 900),
    st.none() | st.integers(1, 20),
)
def test_cuts_cover_all_rows_within_the_limits(sizes: list[int], limit: int, limit_rows: int | None):
    sums = np.cumsum([7, *sizes])
    ranges = cuts(sums, limit, limit_rows)
    assert [row for start, end in ranges for row in range(start, end)] == list(range(len(sizes)))
    for start, end in ranges:
        assert end - start == 1 or sums[end] - sums[start] <= limit
        assert limit_rows is None or end - start <= limit_rows


def test_many_partitions_share_what_may_be_pending():
    limits = WriterLimits()
    assert limits.bytes_to_encode(1) == limits.bytes_to_encode(48) == MIB
    assert limits.bytes_to_encode(100) == 48 * MIB // 100
    assert limits.bytes_to_encode(5_000) == limits.smallest_full_batch_bytes


def test_nothing_added_is_nothing_written(store: MemoryStore):
    with writer(store, 3) as open_writer:
        open_writer.add(canonical(numbered(0)))
        assert open_writer.finish() == []
    assert list(store.list_keys("")) == []


def test_null_timestamps_get_the_clock_of_the_task(store: MemoryStore):
    times = pa.array([None, 5, None], pa.timestamp("us", "UTC"))
    log = write(store, [numbered(3, timestamp=times)], 1)
    assert log.read(0, 0, 3)["timestamp"].cast(pa.int64()).to_pylist() == [TASK_CLOCK_US, 5, TASK_CLOCK_US]
    assert (log.slices[0].min_timestamp_us, log.slices[0].max_timestamp_us) == (5, TASK_CLOCK_US)


def test_keyless_records_stick_to_one_partition_per_gather(store: MemoryStore):  # M: S-07
    limits = WriterLimits(gather_rows=100, gather_rows_per_partition=1)
    with writer(store, 3, limits=limits) as open_writer:
        for first in range(0, 400, 50):
            open_writer.add(canonical(numbered(50, first)))
        log = name(store, open_writer.finish())
    assert [len(log.read(partition, 0, EVERYTHING)) for partition in range(3)] == [200, 100, 100]


def write_all(open_writer: TaskWriter, batches: Sequence[pa.RecordBatch]) -> None:
    with open_writer:
        for each in batches:
            open_writer.add(canonical(each))
        open_writer.finish()


# M: S-06
@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (numbered(10, key=pa.array([b"k" * 30] * 10)), RecordTooLarge),
        (numbered(10, partition=pa.array([9] * 10)), UnknownTopicOrPartition),
    ],
)
def test_refused_rows_leave_nothing(store: MemoryStore, rows: pa.RecordBatch, error: type[Exception]):
    open_writer = writer(store, 3, max_message_bytes=49)
    with pytest.raises(error):
        write_all(open_writer, [rows])
    assert list(store.list_keys("")) == []


def test_abort_writes_nothing_more_and_is_legal_twice(store: MemoryStore):
    open_writer = writer(store, 1)
    open_writer.add(canonical(numbered(10)))
    open_writer.abort()
    open_writer.abort()
    assert list(store.list_keys("")) == []


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REPLY_LOST, Fault.OWN_KEY_EXISTS, KeyExists("it is there")])
@pytest.mark.parametrize("suffix", [".arrow", ".index"])
def test_an_upload_of_unknown_outcome_is_written_again_by_another_name(
    store: MemoryStore, fault: Fault | SparklogError, suffix: str
):
    watched = FaultyStore(store)
    watched.plan(fault, "publish" if suffix == ".arrow" else "put_if_absent", suffix=suffix)
    log = write(watched, [numbered(500)], 1)
    assert not watched.planned
    values = [row["value"] for row in log.read(0, 0, EVERYTHING).to_pylist()]
    assert values == numbered(500).column("value").to_pylist()
    assert data_key(log.objects[0].object, "orders").endswith(f"{2:032x}.arrow")


def test_an_outcome_that_stays_unknown_is_an_error(store: MemoryStore):
    watched = FaultyStore(store)
    for method in WRITES:
        watched.plan(Fault.LOST, method, times=ALWAYS)
    with pytest.raises(OutcomeUnknown):
        write(watched, [numbered(5)], 1)


def test_an_upload_that_fails_behind_add_fails_the_write(store: MemoryStore):
    watched = FaultyStore(store)
    watched.plan(StoreFull("no space"), "publish", suffix=".arrow")
    with pytest.raises(StoreFull):
        write(watched, [numbered(100, first) for first in range(0, 2_000, 100)], 1)
    assert len(watched.aborted) == 1


def test_batches_that_wait_for_their_upload_are_not_written_over(store: MemoryStore):
    """With one partition the encoder writes over its arena again and again: not over one that is still uploaded."""
    limits = WriterLimits(full_batch_bytes=300, smallest_full_batch_bytes=1, object_bytes=20_000, streamed_from_bytes=1)
    go_on = threading.Event()

    def hold_back_what_is_uploaded_behind_add(call: str, key: str) -> None:
        if call == "write" and threading.current_thread() is not threading.main_thread():
            assert go_on.wait(timeout=30)

    watched = FaultyStore(store, hold_back_what_is_uploaded_behind_add)
    with writer(watched, 1, limits=limits) as open_writer:
        open_writer.add(canonical(numbered(1_000)))  # an object of its own
        for first in (1_000, 1_010, 1_020):
            open_writer.add(canonical(numbered(10, first)))  # streamed into the next one
        go_on.set()
        log = name(store, open_writer.finish())
    assert [each.records for each in log.slices] == [1_000, 30]
    assert log.read(0, 0, EVERYTHING)["value"].to_pylist() == numbered(1_030).column("value").to_pylist()


@pytest.mark.parametrize("partitions", [1, 3])
def test_every_object_is_named_however_much_room_is_left(store: MemoryStore, partitions: int):
    """Each upload is waited for when the next object is closed, not only when memory runs short."""
    limits = WriterLimits(
        gather_rows=1,
        gather_rows_per_partition=1,
        full_batch_bytes=300,
        smallest_full_batch_bytes=1,
        object_bytes=2_000,
    )
    with writer(store, partitions, limits=limits) as open_writer:
        for first in range(0, 600, 100):
            open_writer.add(canonical(numbered(100, first, partition=pa.array([0] * 100))))
        log = name(store, open_writer.finish())
    assert len(log.objects) == 6
    assert log.read(0, 0, EVERYTHING)["value"].to_pylist() == numbered(600).column("value").to_pylist()


def test_index_is_there_only_after_its_object(store: MemoryStore):
    watched = FaultyStore(store)
    write(watched, [numbered(1_000)], 2)
    assert len(watched.published) > 4
    for key, then in zip(watched.published[::2], watched.published[1::2], strict=True):
        assert then == index_key(key)


def test_upload_ids_are_drawn_one_per_object(store: MemoryStore):
    ids = upload_ids()
    drawn = []

    def draw() -> Any:
        drawn.append(next(ids))
        return drawn[-1]

    open_writer = writer(store, 1, new_upload_id=draw)
    with open_writer:
        open_writer.add(canonical(numbered(10)))
        assert drawn == []
        ((new, _),) = open_writer.finish()
    assert drawn == [new.upload_id]


@pytest.mark.slow
@pytest.mark.parametrize("load", [*LOADS[:2], *(pytest.param(load, marks=pytest.mark.campaign) for load in LOADS[2:])])
def test_peak_memory_is_a_bare_arrow_writers_and_256_mib(load: str, tmp_path: Path):
    assert peak_bytes("sparklog", load, tmp_path) <= bare_peak_bytes(load) + 256 * MIB


@pytest.mark.slow
def test_what_waits_for_a_slow_store_is_bounded(tmp_path: Path):
    """The load is that of LOADS[0], and so is the bare writer's peak."""
    assert peak_bytes("sparklog", SLOW_STORE, tmp_path) <= bare_peak_bytes(LOADS[0]) + 144 * MIB


@functools.cache
def bare_peak_bytes(load: str) -> int:
    with tempfile.TemporaryDirectory(prefix="sparklog-bare-") as parent:
        return peak_bytes("bare", load, Path(parent))


def peak_bytes(who: str, load: str, parent: Path) -> int:
    """The peak of a process's memory while it writes this load."""
    folder = parent / who
    folder.mkdir()
    command = [sys.executable, "-m", "tests.log.peak_memory", who, load, str(folder)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    return int(ran.stdout) * 1024
