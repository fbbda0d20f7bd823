"""Rows of one topic over several sets of stores: split once, in order, within the memory of one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from sparklog.core.errors import NoReplicaOnline
from sparklog.core.types import Holder, NewObject, NewSlice, StoreId
from sparklog.log.kafka_columns import canonical
from sparklog.log.write import topic_writer
from sparklog.log.write.objects_writer import TaskObjects
from sparklog.log.write.task_memory import WriterLimits
from sparklog.log.write.topic_writer import TopicWriter
from tests.kit.faulty_store import ALWAYS, Hanging
from tests.log.scripted_stores import ScriptedStores, let_end
from tests.log.written_log import TASK_CLOCK_US, TINY, TaskWriter, name, target, upload_ids

A, B, C = (Holder(StoreId(store), 1) for store in "abc")
SETS = ((A, B), (C,), (B, C))  # of partitions 0, 1, 2 and so on


def writer(
    stores: ScriptedStores,
    partitions: int = 6,
    limits: WriterLimits = TINY,
    sets: Sequence[tuple[Holder, ...]] = SETS,
) -> TaskWriter:
    ids = upload_ids()
    task = TaskObjects(stores.lanes(), limits)
    topic = TopicWriter(
        task,
        target(partitions),
        lambda partition: sets[partition % len(sets)],
        new_upload_id=lambda: next(ids),
        now_us=lambda: TASK_CLOCK_US,
    )
    return TaskWriter(task, topic)


def batch(first: int, count: int = 60, partitions: int = 6) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return canonical(
        pa.record_batch(
            {
                "value": pa.array([b"%020d" % number for number in numbers]),
                "partition": pa.array([number % partitions for number in numbers], pa.int32()),
            }
        )
    )


def read(stores: ScriptedStores, written: Sequence[tuple[NewObject, list[NewSlice]]]) -> dict[str, list[list[bytes]]]:
    """By store: the values of each partition in their order, of the objects that it holds."""
    found = {}
    for store in "abc":
        held = [each for each in written if any(holder.store == store for holder in each[0].holders)]
        log = name(stores[store], [(named, _numbered(slices, at)) for at, (named, slices) in enumerate(held)])
        found[store] = [log.read(partition, 0, 1 << 40)["value"].to_pylist() for partition in range(6)]
    return found


def _numbered(slices: list[NewSlice], at: int) -> list[NewSlice]:
    return [msgspec.structs.replace(each, object_index=at) for each in slices]


def test_each_store_has_the_partitions_that_it_holds_in_order_and_no_others() -> None:
    stores = ScriptedStores()
    with writer(stores) as open_writer:
        for first in range(0, 1_200, 60):
            open_writer.add(batch(first))
        written = open_writer.finish()
    assert [each.object_index for _, slices in written for each in slices] == [
        at for at, (_, slices) in enumerate(written) for _ in slices
    ]
    wanted = [[b"%020d" % number for number in range(partition, 1_200, 6)] for partition in range(6)]
    on = {"a": (0, 3), "b": (0, 2, 3, 5), "c": (1, 2, 4, 5)}
    assert read(stores, written) == {
        store: [wanted[partition] if partition in held else [] for partition in range(6)] for store, held in on.items()
    }
    let_end()


def test_rows_are_split_once_for_all_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = []
    split = topic_writer.split

    def counted(*given: Any) -> Any:
        splits.append(given)
        return split(*given)

    monkeypatch.setattr(topic_writer, "split", counted)
    with writer(ScriptedStores(), limits=WriterLimits()) as open_writer:
        open_writer.add(batch(0))
        assert len(open_writer.finish()) == len(SETS)
    assert len(splits) == 1
    let_end()


def test_the_memory_of_all_sets_together_stays_within_that_of_a_task() -> None:
    """The largest object is closed when all together are as large as one may be. Limits: a 64th of the usual ones."""
    limits = WriterLimits(
        gather_rows=128,
        gather_bytes=256 << 10,
        full_batch_bytes=16 << 10,
        smallest_full_batch_bytes=4 << 10,
        object_bytes=768 << 10,
        pinned_in_vain_bytes=512 << 10,
        live_bytes=3 << 20,
    )
    dice = np.random.default_rng(5)
    most = 0
    with writer(ScriptedStores(), limits=limits) as open_writer:
        task, writers = open_writer.task.memory, open_writer.task.writers
        for _ in range(100):
            values = [dice.bytes(1_000) for _ in range(200)]
            numbers = pa.array(dice.integers(0, 6, 200), pa.int32())
            open_writer.add(canonical(pa.record_batch({"value": values, "partition": numbers})))
            most = max(most, task._live_bytes + 3 * open_writer.topic._gathered_bytes)
            assert not task.is_full
            assert task.pending_bytes == sum(each._pending_bytes for each in writers)
            assert task.held_bytes == sum(each._held_bytes for each in writers)
        written = open_writer.finish()
        assert (task.pending_bytes, task.held_bytes, task.pinned_bytes, task._uploading_bytes) == (0, 0, 0, 0)
    assert limits.object_bytes < most <= limits.live_bytes
    assert len(written) > 20
    let_end()


def test_a_partition_on_several_stores_is_streamed_too() -> None:
    """A store that is behind gets the right bytes, though the encoder goes on meanwhile."""
    stores = ScriptedStores()
    hanging = Hanging()
    stores["b"].plan(hanging, "write")
    limits = WriterLimits(
        gather_rows=10, full_batch_bytes=300, smallest_full_batch_bytes=1, object_bytes=20_000, streamed_from_bytes=1
    )
    with writer(stores, 1, limits, sets=((A, B),)) as open_writer:
        for first in range(0, 100, 10):
            open_writer.add(batch(first, 10, 1))
        memory = open_writer.task.memory
        assert (memory.held_bytes, memory.streamed_bytes > 0) == (0, True)
        assert hanging.reached.wait(60)
        assert memory._live_bytes > memory.streamed_bytes, "what b has not taken counts, with the head of the file"
        hanging.go_on.set()
        written = open_writer.finish()
        assert memory._live_bytes == 0
    assert [named.holders for named, _ in written] == [(A, B)]
    values = [b"%020d" % number for number in range(100)]
    held = read(stores, written)
    assert (held["a"][0], held["b"][0], held["c"][0]) == (values, values, [])
    let_end()


def test_an_object_that_is_streamed_to_several_stores_is_aborted_on_each() -> None:
    stores = ScriptedStores()
    hanging = {store: Hanging() for store in "ab"}
    for store, what in hanging.items():
        stores[store].plan(what, "write", skip=1)
    limits = WriterLimits(gather_rows=10, full_batch_bytes=300, smallest_full_batch_bytes=1, streamed_from_bytes=1)
    with writer(stores, 1, limits, sets=((A, B),)) as open_writer:
        open_writer.add(batch(0, 60, 1))
        (streamed,) = open_writer.task.memory.streaming
        assert all(each.reached.wait(60) for each in hanging.values())
    let_end(*hanging.values())
    assert streamed.held_bytes == 0
    assert (stores.keys("a"), stores.keys("b")) == ([], [])
    assert (len(stores["a"].aborted), len(stores["b"].aborted)) == (1, 1)


def test_a_store_that_hangs_is_left_out_of_its_objects_and_of_those_to_come() -> None:
    stores = ScriptedStores()
    hanging = Hanging()
    stores["a"].plan(hanging, "publish", times=ALWAYS)
    stores.clock.ready = lambda: True  # only a is ever waited for alone
    with writer(stores, sets=((A, B), (C,))) as open_writer:
        for first in range(0, 1_200, 60):
            open_writer.add(batch(first))
        written = open_writer.finish()
        failures = open_writer.task.lanes.failures()
    assert {"".join(holder.store for holder in named.holders) for named, _ in written} == {"b", "c"}
    assert "the write waited 30 seconds for this store" in failures[StoreId("a")]
    assert stores.keys("a") == []
    let_end(hanging)


def test_rows_of_a_partition_without_stores_are_refused() -> None:
    task = TaskObjects(ScriptedStores().lanes(), TINY)
    topic = TopicWriter(task, target(1), lambda partition: (), new_upload_id=lambda: None, now_us=lambda: 1)  # type: ignore[arg-type, return-value]
    with pytest.raises(NoReplicaOnline, match="orders-0: no store of its replicas could be reached"):
        topic.add(batch(0, partitions=1))
