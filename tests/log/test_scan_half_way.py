"""A scan that fails half-way: what it yielded is not yielded again, and nothing is left out in silence.

The plans are made by hand: slices of several batches, of which every batch is a read of its own.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.errors import (
    Damaged,
    DataLoss,
    KeyNotFound,
    SparklogError,
    StoreAccessDenied,
    StoreUnavailable,
    UnknownTopicOrPartition,
)
from sparklog.core.reading.plan import RangeToRead
from sparklog.core.types import Holder, LeaderEpoch, NamedObject, ObjectNumber, Offset, PartitionIndex, StoreId, TopicId
from sparklog.log.read import ranged_reads
from sparklog.log.read.scan import Replan, scan
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import FaultyStore
from tests.log.written_log import WrittenLog, empty_store, part_of, parts_of, stores_of, write

RECORDS = 120
COLUMNS = ("offset", "value")
NOT_FROM_HERE = (KeyNotFound, Damaged, StoreUnavailable, StoreAccessDenied)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> WrittenLog:
    """Two slices or more of several batches each; value = offset."""
    monkeypatch.setattr(ranged_reads, "RANGED_READ_BYTES", 1)
    values = pa.array([b"%030d" % number for number in range(RECORDS)])
    made = write(empty_store(), [pa.record_batch({"value": values})], 1, compression="none")
    assert len(made.slices) >= 2
    assert made.slices[0].batches > 2 < made.slices[1].batches
    return made


def fails_at_read(log: WrittenLog, at: int, error: type[SparklogError]) -> FaultyStore:
    """The store of the log, of which the ranged read number `at` fails."""
    store = FaultyStore(log.store)
    store.plan(error("wanted it, found it not here"), "get_ranges", skip=at - 1)
    return store


def plan_of(log: WrittenLog, start: int = 0, *, holders: str = "a", first_number: int = 0) -> RangeToRead:
    """[start, end of the log), held by these stores; objects are numbered from `first_number` on."""
    held = tuple(Holder(StoreId(each), 1) for each in holders)
    slices = tuple(
        part_of(
            part.slice,
            NamedObject(
                ObjectNumber(first_number + part.object.number),
                msgspec.structs.replace(part.object.object, holders=held),
            ),
        )
        for part in parts_of(log)
        if part.slice.end > start
    )
    return RangeToRead(
        "orders", TopicId(5), PartitionIndex(0), Offset(start), Offset(RECORDS), slices, 0, "", LeaderEpoch(0)
    )


def rows(plan: RangeToRead, stores: object, replan: Replan, **more: bool) -> list[int]:
    """The offsets that a scan yields; every value must be its own."""
    found: list[int] = []
    for batch in scan(plan, stores, COLUMNS, replan, **more):  # type: ignore[arg-type]
        assert batch["value"].to_pylist() == [b"%030d" % each for each in batch["offset"].to_pylist()]
        found += batch["offset"].to_pylist()
    return found


def never(plan: RangeToRead, at: Offset) -> RangeToRead:
    raise AssertionError("nothing is planned again")


# M: R-06
@pytest.mark.parametrize("error", NOT_FROM_HERE)
@pytest.mark.parametrize("at", [1, 2, 3])
def test_the_next_holder_goes_on_where_the_first_one_failed(
    log: WrittenLog, error: type[SparklogError], at: int
) -> None:
    stores = stores_of(log, b=log.store)
    stores._open[StoreId("a")] = fails_at_read(log, at, error)
    assert rows(plan_of(log, holders="ab"), stores, never) == list(range(RECORDS))


def test_what_was_fetched_ahead_from_one_holder_is_not_taken_for_anothers(log: WrittenLog) -> None:
    """The bytes that came ahead are damaged: the next holder is asked for its own."""
    damaged = MemoryStore("memory://written-log-damaged")
    for stored in list(damaged.list_keys("")):
        damaged.delete(stored.key)
    second = log.slices[1]
    for stored in log.store.list_keys(""):
        body = bytearray(log.store.get(stored.key))
        if stored.key == log.key(second):
            body[second.position + 100] ^= 1
        damaged.put_if_absent(stored.key, bytes(body))
    damaged.read_ahead = 3
    stores = stores_of(log, b=log.store)
    stores._open[StoreId("a")] = damaged
    assert rows(plan_of(log, holders="ab"), stores, never) == list(range(RECORDS))


def test_an_error_of_the_last_holder_says_where_the_reader_was(log: WrittenLog) -> None:
    stores = stores_of(log)
    stores._open[StoreId("a")] = fails_at_read(log, 2, StoreUnavailable)
    reading = scan(plan_of(log), stores, COLUMNS, never)
    at = next(reading).num_rows
    with pytest.raises(StoreUnavailable, match=f"orders-0 from offset {at} on: wanted"):
        next(reading)


# ---- planned again --------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyNotFound, Damaged])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_plan_that_replaces_a_lost_object_goes_on_where_the_reader_was(
    log: WrittenLog, error: type[SparklogError], at: int
) -> None:
    stores = stores_of(log)
    stores._open[StoreId("a")] = fails_at_read(log, at, error)
    asked: list[int] = []

    def rewritten(plan: RangeToRead, at: Offset) -> RangeToRead:
        asked.append(at)
        return plan_of(log, at, first_number=100)

    assert rows(plan_of(log), stores, rewritten) == list(range(RECORDS))
    assert len(asked) == 1


def risen_to(log: WrittenLog, start: int) -> Replan:
    return lambda plan, at: plan_of(log, max(start, at))


def test_records_that_retention_took_are_an_error_and_left_out_only_if_asked(log: WrittenLog) -> None:
    def scanned(**more: bool) -> list[int]:
        stores = stores_of(log)
        stores._open[StoreId("a")] = fails_at_read(log, 2, KeyNotFound)
        return rows(plan_of(log), stores, risen_to(log, log_start), **more)

    log_start = log.slices[1].start + 2  # inside a slice
    with pytest.raises(DataLoss, match=rf"orders-0: records \[\d+, {log_start}\) were removed by retention"):
        scanned()
    found = scanned(fail_on_data_loss=False)
    yielded = found[: found.index(log_start)]
    assert yielded == list(range(len(yielded)))
    assert 0 < len(yielded) < log.slices[0].records
    assert found[len(yielded) :] == list(range(log_start, RECORDS))


def test_a_topic_that_was_deleted_is_an_error_and_an_end_only_if_asked(log: WrittenLog) -> None:
    def deleted(plan: RangeToRead, at: Offset) -> RangeToRead:
        raise UnknownTopicOrPartition("topic id 5 is not in the cluster")

    def scanned(**more: bool) -> list[int]:
        stores = stores_of(log)
        stores._open[StoreId("a")] = fails_at_read(log, 2, KeyNotFound)
        return rows(plan_of(log), stores, deleted, **more)

    with pytest.raises(DataLoss, match=r"orders-0 from offset \d+ on: the topic was deleted"):
        scanned()
    found = scanned(fail_on_data_loss=False)
    assert 0 < len(found) < log.slices[0].records


@pytest.mark.parametrize(("error", "raised"), [(KeyNotFound, DataLoss), (Damaged, Damaged)], ids=["gone", "damaged"])
def test_what_the_chain_still_names_is_lost_or_damaged_and_not_read_for_ever(
    log: WrittenLog, error: type[SparklogError], raised: type[SparklogError]
) -> None:
    looks: list[int] = []

    def same(plan: RangeToRead, at: Offset) -> RangeToRead:
        looks.append(at)
        assert len(looks) == 1, "the plan names the same object again"
        return plan_of(log, at)

    stores = stores_of(log)
    stores._open[StoreId("a")] = fails_at_read(log, 2, error)
    with pytest.raises(raised) as caught:
        rows(plan_of(log), stores, same)
    assert type(caught.value) is raised


# M: F-04
def test_an_object_that_is_cut_while_it_is_read_is_damage_and_what_was_yielded_is_right(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    with sparklog.connect(str(tmp_path)) as cluster:
        cluster.create_topic("t", partitions=1)
        for each in ("first", "second"):
            cluster.append("t", pa.table({"value": [each]}), compression="none")
        reading = iter(cluster.scan("t", partition=0))
        first = next(reading)
        for path in tmp_path.glob("append/*/*.arrow"):
            os.truncate(path, 100)
        assert first["value"].to_pylist() == [b"first"]
        with pytest.raises(Damaged, match=r"t-0 on store .* found that it ends at byte 100"):
            next(reading)
