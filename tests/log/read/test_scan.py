"""A scan over many slices, of a store that answers at once and of one that is read ahead: the same rows and errors."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.commands import MoveLogStart
from sparklog.core.errors import Damaged, DataLoss, KeyNotFound, SparklogError, StoreAccessDenied, StoreUnavailable
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, StoreId, TopicId, TopicPartition
from sparklog.log.cluster_stores import Stores
from sparklog.log.read import slices_ahead
from sparklog.log.read.first_holder import HolderFailure, NoHolderAnswers
from sparklog.log.read.time_lookup import candidates
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import ALWAYS, Fault, FaultyStore
from tests.kit.hand_clock import START_MS
from tests.kit.log import new_cluster
from tests.log.written_log import put_in_front
from tests.maintenance.maintained_log import maintained

APPENDS = 9


@pytest.fixture(params=[0, 3], ids=["at once", "ahead"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A topic of `APPENDS` slices with ten records each; value = offset."""
    monkeypatch.setattr(MemoryStore, "read_ahead", request.param)
    with new_cluster() as made:
        made.create_topic("t", partitions=1)
        for number in range(APPENDS):
            made.append("t", pa.table({"value": [str(number * 10 + each) for each in range(10)]}))
        yield made


def test_any_range_over_many_slices_is_read_in_order(cluster: Cluster) -> None:
    for start, end in ((0, 90), (5, 85), (10, 20), (19, 21), (88, 90), (40, 40)):
        found = cluster.read("t", start=start, end=end, partition=0)
        assert found["offset"].to_pylist() == list(range(start, end))
        assert found["value"].to_pylist() == [str(each).encode() for each in range(start, end)]


def test_columns_that_need_no_bytes_fetch_none_ahead(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryStore, "get_ranges")
    assert cluster.read("t", partition=0, columns=["offset"]).num_rows == 90


def test_a_lost_object_is_named_when_its_turn_comes(cluster: Cluster) -> None:
    store = cluster.connection.follower.store
    state = cluster.connection.newest_state()
    lost = sorted(each.object.upload_id for each in state.objects if each.number == 4)
    for each in list(store.list_keys("append/")):
        if any(upload_id in each.key for upload_id in lost):
            store.delete(each.key)
    reading = iter(cluster.scan("t", partition=0))
    assert [next(reading)["offset"][0].as_py() for _ in range(4)] == [0, 10, 20, 30]
    with pytest.raises(DataLoss, match=r"t-0: records \[40, 50\) are lost"):
        next(reading)


def test_a_lost_object_takes_all_records_of_its_slice_however_few_were_wanted(cluster: Cluster) -> None:
    store = cluster.connection.follower.store
    state = cluster.connection.newest_state()
    (key,) = (data_key(each.object, "t") for each in state.objects if each.number == 4)
    store.delete(key)
    with pytest.raises(DataLoss, match=r"t-0: records \[42, 50\) are lost: .* read on at 50;"):
        cluster.read("t", partition=0, start=42, end=44)
    assert cluster.read("t", partition=0, start=50).num_rows == 40


@pytest.mark.parametrize("gone", [False, True], ids=["damaged", "gone"])
def test_an_error_names_partition_offsets_and_store_and_what_to_run(cluster: Cluster, gone: bool) -> None:
    store = cluster.connection.follower.store
    state = cluster.connection.newest_state()
    (key,) = (data_key(each.object, "t") for each in state.objects if each.number == 4)
    (part,) = state.slices.find(TopicPartition(TopicId(1), PartitionIndex(0)), OffsetRange(Offset(40), Offset(50)))
    body = bytearray(store.get(key))
    body[part.position + 50] ^= 1
    store.delete(key)
    if gone:
        store.delete(index_key(key))
        wanted = rf"DATA_LOSS: t-0: records \[4\d, 50\) are lost: wanted {key}, .*; put the"
    else:
        store.put_if_absent(key, body)
        wanted = (
            r"CORRUPT_MESSAGE: t-0 on store local at memory://.*, offsets \[40, 50\): "
            rf"record batch at byte \d+ of {key}: wanted CRC32C "
        )
    run = r".* 'sparklog segment dump t -p 0 --offset 4\d'"
    for start in (0, 45):
        with pytest.raises(Damaged, match=wanted + run):
            cluster.read("t", partition=0, start=start)
    with pytest.raises(Damaged, match=wanted + run):
        cluster.offset_for_time("t", 0, part.max_timestamp_us)
    assert cluster.read("t", partition=0, end=40).num_rows == cluster.read("t", partition=0, start=50).num_rows == 40


def test_an_object_that_no_store_holds_is_named_when_its_turn_comes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding = Stores.holding

    def lost(stores: Stores, part: SliceToRead) -> list[StoreId]:
        return [] if part.object.number == 4 else holding(stores, part)

    monkeypatch.setattr(Stores, "holding", lost)
    reading = iter(cluster.scan("t", partition=0))
    assert [next(reading)["offset"][0].as_py() for _ in range(4)] == [0, 10, 20, 30]
    with pytest.raises(DataLoss, match=r"t-0: records \[40, 50\) are lost: object 4 is on none of the"):
        next(reading)


@pytest.mark.parametrize("error", [KeyNotFound, Damaged, StoreUnavailable, StoreAccessDenied])
def test_records_and_times_come_from_the_next_holder_where_the_first_one_fails(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, error: type[SparklogError]
) -> None:
    failing = FaultyStore(MemoryStore("memory://failing"))
    failing.plan(error("not here"), times=ALWAYS)
    put_in_front(monkeypatch, failing)
    found = cluster.read("t", partition=0)
    assert found["offset"].to_pylist() == list(range(90))
    at_us = found["timestamp"].cast(pa.int64()).to_pylist()[45]
    assert cluster.offset_for_time("t", 0, at_us) in range(40, 46)


# M: S-05
def test_a_look_up_by_time_begins_at_the_log_start(cluster: Cluster) -> None:
    state = cluster.connection.newest_state()
    topic_id = state.topic_ids["t"]
    cluster.submit(MoveLogStart(topic_id, PartitionIndex(0), Offset(14)))
    assert cluster.offset_for_time("t", 0, -5_000_000) == 14
    assert cluster.offsets_for_times("t", 0) == {0: 14}


# M: S-05
def test_a_look_up_by_time_goes_on_behind_slices_whose_late_records_lie_below_the_log_start(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparklog.log.read.time_lookup.CANDIDATES", 1)
    cluster.create_topic("late", partitions=1)
    for times in ([9, 1, 1], [1, 9]):
        column = pa.array(times, pa.timestamp("us", "UTC"))
        cluster.append("late", pa.table({"value": ["v"] * len(times), "timestamp": column}))
    state = cluster.connection.newest_state()
    topic_id = state.topic_ids["late"]
    cluster.submit(MoveLogStart(topic_id, PartitionIndex(0), Offset(1)))
    assert cluster.offset_for_time("late", 0, 9) == 4


def test_a_look_up_by_time_gives_up_on_slices_that_are_replaced_again_and_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def replaced_again(*given: Any) -> list[SliceToRead]:
        looks.append(len(looks))
        assert len(looks) < 100
        return candidates(*given)[len(looks) % 2 :]

    def gone(slices: Sequence[SliceToRead], *given: Any) -> None:
        raise NoHolderAnswers(slices[0], "t", Offset(0), [HolderFailure("store b", KeyNotFound("gone"))])

    monkeypatch.setattr("sparklog.log.read.time_lookup.candidates", replaced_again)
    monkeypatch.setattr("sparklog.log.read.time_lookup.first_in", gone)
    with pytest.raises(DataLoss, match="gone"):
        cluster.offset_for_time("t", 0, 0)


def test_what_comes_is_dropped_when_the_reader_stops(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_ahead, "BYTES_AHEAD", 0)  # still one slice ahead
    with cluster.scan("t", partition=0) as reading:
        assert reading.read_next_batch()["offset"][0].as_py() == 0


def test_a_look_up_by_time_asks_the_chain_again_when_a_roll_has_replaced_its_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = next(maintained(f"memory://scan-{uuid.uuid4().hex}"))
    log.topic("t", rewrite_delete_delay_ms=0)
    for minute in range(3):
        log.append("t", 0, 1, timestamp_ms=log.clock.at_ms + minute * 60_000)
    looks = []

    def looked_up(*given: Any) -> list[SliceToRead]:
        found = candidates(*given)
        looks.append(found)
        if len(looks) == 1:
            log.clock.at_ms += 1
            log.roll()
            log.clock.at_ms += 1
            log.roll()
            assert len(log.stored()) == 2, "the objects of the first look are deleted"
        return found

    monkeypatch.setattr("sparklog.log.read.time_lookup.candidates", looked_up)
    assert log.cluster.offset_for_time("t", 0, (START_MS + 60_000) * 1000) == 1
    assert len(looks) == 2
    for key in log.stored():
        log.store.delete(key)
    with pytest.raises(DataLoss, match=r"t-0: records \[0, 3\) are lost"):
        log.cluster.offset_for_time("t", 0, START_MS * 1000)
    assert len(looks) == 4, "what the chain still names is lost"


def test_a_look_up_by_time_asks_the_chain_again_if_the_holder_that_is_up_has_lost_the_object(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = FaultyStore(MemoryStore("memory://dead"))
    dead.plan(Fault.UNAVAILABLE, times=ALWAYS)
    looks: list[int] = []

    def replaced_by_the_next_slice(*given: Any) -> list[SliceToRead]:
        looks.append(len(looks))
        return candidates(*given)[1:] if len(looks) > 1 else candidates(*given)

    put_in_front(monkeypatch, dead)
    monkeypatch.setattr("sparklog.log.read.time_lookup.candidates", replaced_by_the_next_slice)
    store = cluster.connection.follower.store
    state = cluster.connection.newest_state()
    (key,) = (data_key(each.object, "t") for each in state.objects if each.number == 0)
    store.delete(key)
    store.delete(index_key(key))
    assert cluster.offset_for_time("t", 0, 0) == 10
    assert len(looks) == 2
