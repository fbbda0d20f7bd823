"""What replicas lack and what is reported of them: beside a slow twin on random histories, and case by case."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from random import Random

import pytest
from msgspec.structs import replace

from sparklog.core.placement.held_slices import Holding
from sparklog.core.placement.replica_fetch import (
    FetchLimits,
    UnderWay,
    lag_bytes,
    plan_fetch,
    replica_reports,
    unfinished_replicas,
)
from sparklog.core.replication.isr import may_join
from sparklog.core.state import ClusterState
from sparklog.core.tables.slice_table import SliceTable
from sparklog.core.types import ObjectNumber, Offset, OffsetRange, PartitionIndex, Slice, StoreId, TopicPartition
from tests.core.replicated_log import TOPIC, ReplicatedLog
from tests.core.replication.example_partition import stores
from tests.core.test_replicated_walk import Walk
from tests.kit.budget import Seeds, random_runs

STEPS = 60
EVERYTHING = FetchLimits(1 << 30, 1 << 50, 1 << 30)


def missing(state: ClusterState, store: StoreId, key: TopicPartition) -> list[Slice]:
    log_end = state.partitions[key].replication.log_end(store)
    return [each for each in state.slices.everything() if of(each) == key and each.end > log_end]


def of(slice_: Slice) -> TopicPartition:
    return TopicPartition(slice_.topic_id, slice_.partition)


def twin_plan(
    state: ClusterState, store: StoreId, failing: Collection[StoreId]
) -> dict[TopicPartition, tuple[StoreId, list[ObjectNumber]]]:
    """For each partition, in order: whom it is fetched from, and the objects that nobody before it takes."""
    taken: set[ObjectNumber] = set()
    plan: dict[TopicPartition, tuple[StoreId, list[ObjectNumber]]] = {}
    for key in sorted(state.partitions):
        value = state.partitions[key].replication
        if store not in value.replicas:
            continue
        source, objects = None, []
        for slice_ in missing(state, store, key):
            if slice_.object_number in taken:
                continue
            named = state.objects.get(slice_.object_number)
            assert named is not None
            holders = Holding(state, state.partitions[key]).of(slice_.end, named.holders)
            sources = [each for each in holders if each != store and each not in failing] or [
                each for each in holders if each == store
            ]
            if not sources:
                break
            source = source or sources[0]
            if source not in sources:
                break
            objects.append(slice_.object_number)
            taken.add(slice_.object_number)
        if source is not None:
            plan[key] = source, objects
    return plan


def twin_end(state: ClusterState, store: StoreId, key: TopicPartition, checked: Collection[ObjectNumber]) -> Offset:
    end = state.partitions[key].replication.log_end(store)
    for slice_ in missing(state, store, key):
        if slice_.object_number not in checked:
            break
        end = slice_.end
    return end


def states(seeds: Seeds) -> Iterator[tuple[ClusterState, Random]]:
    for seed in seeds:
        walk = Walk(seed)
        for step in range(STEPS):
            walk.step()
            if step % 10 == 9:
                yield walk.log.state, walk.dice


# M: L-03
@random_runs(range(4), campaign=[range(24)])
def test_the_plan_is_that_of_a_slow_twin(seeds: Seeds) -> None:
    planned = 0
    for state, dice in states(seeds):
        for store in state.stores:
            at = unfinished_replicas(state, store)
            failing = {each for each in state.stores if dice.random() < 0.2}
            batches, _ = plan_fetch(state, store, at.behind, UnderWay(failing=failing), EVERYTHING)
            expected = twin_plan(state, store, failing)
            found = {
                key: (batch.source, [each.number for each in batch.objects if each.topic_partition == key])
                for batch in batches
                for key in batch.partitions
            }
            assert found == expected
            planned += sum(len(objects) for _, objects in expected.values())
            for batch in batches:
                assert all(each.sources[:1] in ((batch.source,), ()) for each in batch.objects)
                assert all(store not in each.sources for each in batch.objects)
    assert planned > 8 * seeds.least


@random_runs(range(4), campaign=[range(24)])
def test_reports_are_those_of_a_slow_twin_and_the_chain_takes_them(seeds: Seeds) -> None:
    rose = 0
    for seed in seeds:
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
            state = walk.log.state
            store = walk.dice.choice(list(state.stores))
            if state.stores[store].fenced:
                continue
            at = unfinished_replicas(state, store)
            checked = {each.object_number for each in state.slices.everything() if walk.dice.random() < 0.6}
            reports = replica_reports(state, store, at, checked)
            expected = {}
            for key in sorted({*at.behind, *at.joinable}):
                end, value = twin_end(state, store, key, checked), state.partitions[key].replication
                if end > value.log_end(store) or may_join(value, store):
                    expected[key.partition] = end
            assert {each.partition: each.log_end for each in reports} == expected
            for each in reports:
                before = state.partitions[TopicPartition(each.topic_id, each.partition)].replication.log_end(store)
                walk.log.report(store, each.log_end, each.partition)
                value = walk.log.value(each.partition)
                if store in value.replicas:
                    assert value.log_end(store) >= each.log_end
                    rose += value.log_end(store) > before
    assert rose > 4 * seeds.least


@pytest.fixture
def log() -> ReplicatedLog:
    """Three partitions; c lacks five objects of each, and so does b of the last."""
    log = ReplicatedLog(partitions=3)
    for partition, on in ((0, "ab"), (1, "ab"), (2, "a")):
        log.write("abc", 1, partition)
        for _ in range(5):
            log.write(on, 1, partition)
    return log


def keys(*partitions: int) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, PartitionIndex(each)) for each in partitions]


(C,) = stores("c")


def test_what_is_behind_and_by_how_much(log: ReplicatedLog) -> None:
    at = unfinished_replicas(log.state, C)
    assert (at.behind, at.joinable) == (keys(0, 1, 2), [])
    lengths = [each.length for key in keys(0, 1, 2) for each in missing(log.state, C, key)]
    assert lag_bytes(log.state, C, at.behind) == sum(lengths) > 0


def test_a_plan_is_bounded_by_objects_and_by_bytes(log: ReplicatedLog) -> None:
    (batch,), last = plan_fetch(log.state, C, keys(0, 1, 2), UnderWay(), FetchLimits(objects=7))
    assert ([each.topic_partition.partition for each in batch.objects], last) == ([0] * 5 + [1] * 2, keys(1)[0])
    size_bytes = batch.objects[0].size_bytes
    (batch,), _ = plan_fetch(log.state, C, keys(0, 1, 2), UnderWay(), FetchLimits(size_bytes=size_bytes * 3))
    assert len(batch.objects) == 3


def test_the_next_plan_starts_behind_the_last_partition(log: ReplicatedLog) -> None:
    limits = FetchLimits(objects=1)
    after, firsts = None, []
    for _ in range(4):
        (batch,), after = plan_fetch(log.state, C, keys(0, 1, 2), UnderWay(after=after), limits)
        firsts.append(batch.partitions)
    assert firsts == [(keys(0)[0],), (keys(1)[0],), (keys(2)[0],), (keys(0)[0],)]


def test_a_plan_works_around_what_is_under_way(log: ReplicatedLog) -> None:
    objects = [each.object_number for each in missing(log.state, C, keys(0)[0])]
    under_way = UnderWay(checked=objects[:2], copying=objects[2:3], partitions=keys(1))
    (batch,), _ = plan_fetch(log.state, C, keys(0, 1, 2), under_way, EVERYTHING)
    assert batch.partitions == tuple(keys(0, 2))
    assert [each.number for each in batch.objects][:2] == objects[3:]


def test_a_busy_source_gets_no_second_batch(log: ReplicatedLog) -> None:
    busy = stores("a")
    assert plan_fetch(log.state, C, keys(0, 1, 2), UnderWay(busy=busy), EVERYTHING)[0] == []


def test_a_plan_ends_after_some_partitions_that_have_to_wait_and_the_next_goes_on_there(log: ReplicatedLog) -> None:
    busy, limits = UnderWay(busy=stores("a")), FetchLimits(in_vain=2)
    assert plan_fetch(log.state, C, keys(0, 1, 2), busy, limits) == ([], keys(1)[0])
    (batch,), _ = plan_fetch(log.state, C, keys(0, 1, 2), UnderWay(after=keys(1)[0]), FetchLimits(objects=1))
    assert batch.partitions == (keys(2)[0],)


def test_partitions_that_nobody_can_provide_do_not_end_a_plan(log: ReplicatedLog) -> None:
    """Only b holds the new objects of partitions 0 and 1, and it fails; those of partition 2 are to be had."""
    for partition in (0, 1):
        log.lose("a", (partition, 0))
    under_way = UnderWay(failing=stores("b"))
    (batch,), _ = plan_fetch(log.state, C, keys(0, 1, 2), under_way, FetchLimits(in_vain=1))
    assert batch.partitions == (keys(2)[0],)


def test_failing_sources_are_left_out_as_long_as_others_hold_it(log: ReplicatedLog) -> None:
    (batch,), _ = plan_fetch(log.state, C, keys(0, 1, 2), UnderWay(failing=stores("a")), EVERYTHING)
    assert (batch.source, batch.partitions) == ("b", tuple(keys(0, 1)))
    assert {each.sources for each in batch.objects} == {stores("b")}


def test_what_only_the_store_itself_holds_is_looked_for_there(log: ReplicatedLog) -> None:
    """Named under its present registration, above its log end, and lost by all others."""
    log = ReplicatedLog()
    log.write("ab")
    log.write("abc")
    for each in "ab":
        log.lose(each, (0, 1))
    (batch,), _ = plan_fetch(log.state, C, keys(0), UnderWay(), EVERYTHING)
    assert [(each.sources, log.state.objects.get(each.number) is not None) for each in batch.objects] == [
        (stores("a", "b"), True)
    ]
    checked = {each.number for each in batch.objects}
    (batch,), _ = plan_fetch(log.state, C, keys(0), UnderWay(checked=checked), EVERYTHING)
    assert (batch.source, [each.sources for each in batch.objects]) == ("c", [()])


def test_an_object_of_several_partitions_is_fetched_once() -> None:
    log = ReplicatedLog(partitions=2)
    one = log.write_of("ab")
    both = replace(one, slices=(*one.slices, log.part(1, 1)), epochs=(*one.epochs, *log.write_of("ab", 1, 1).epochs))
    log.submit(both)
    (batch,), _ = plan_fetch(log.state, C, keys(0, 1), UnderWay(), EVERYTHING)
    assert len(batch.objects) == 1
    checked = {batch.objects[0].number}
    reports = replica_reports(log.state, C, unfinished_replicas(log.state, C), checked)
    assert [(each.partition, each.log_end) for each in reports] == [(0, 1), (1, 1)]


def test_a_replica_that_leaves_is_filled_until_it_is_gone(log: ReplicatedLog) -> None:
    """b and c go, d comes: until d has everything, b and c may have to be in sync for acks=all."""
    log = ReplicatedLog(stores="abcd")
    log.write("ab")
    log.write_to_leader("a")
    log.move("ad")
    assert [unfinished_replicas(log.state, StoreId(each)).behind for each in "bcd"] == [keys(0)] * 3
    log.report("c", 2)
    assert log.replicas() == "a:abc a2 d0 b1 c2 hw1"
    log.report("d", 2)
    assert log.replicas() == "a:ad a2 d2 hw2"
    assert unfinished_replicas(log.state, C).behind == []


@random_runs(range(4), campaign=[range(24)])
def test_a_walk_over_slices_finds_each_once(monkeypatch: pytest.MonkeyPatch, seeds: Seeds) -> None:
    monkeypatch.setattr("sparklog.core.tables.slice_table.WALKED_OFFSETS", 1)
    for state, dice in states(seeds):
        for key in state.partitions:
            low, high = sorted(Offset(dice.randint(0, state.partitions[key].next_offset + 1)) for _ in range(2))
            found = list(state.slices.walk(key, OffsetRange(low, high)))
            assert found == (list(state.slices.find(key, OffsetRange(low, high))) if low < high else [])


def test_a_walk_looks_up_no_more_than_it_is_asked_for(log: ReplicatedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []
    find = SliceTable.find

    def counted(table: SliceTable, key: TopicPartition, offsets: OffsetRange) -> object:
        looked_up.append(offsets)
        return find(table, key, offsets)

    monkeypatch.setattr(SliceTable, "find", counted)
    monkeypatch.setattr("sparklog.core.tables.slice_table.WALKED_OFFSETS", 2)
    next(log.state.slices.walk(keys(0)[0], OffsetRange(Offset(0), Offset(6))))
    assert looked_up == [OffsetRange(Offset(0), Offset(2))]
