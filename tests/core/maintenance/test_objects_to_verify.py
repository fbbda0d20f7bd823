"""Which objects verify reads: each that a store should hold, once, with all its slices, in little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from bench.state_scale import THREE, large_state
from sparklog.core.maintenance import objects_to_verify as module
from sparklog.core.maintenance.objects_to_verify import (
    ObjectSums,
    ObjectsWanted,
    Share,
    objects_to_verify,
    slices_still_held,
    sums_to_verify,
)
from sparklog.core.reading.plan import slices_to_read
from sparklog.core.state import ClusterState
from sparklog.core.types import OffsetRange, PartitionIndex, StoreId, TopicId
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster

ALL = frozenset(map(StoreId, "abc"))
READ_BYTES = 500  # so that an object takes several reads


@pytest.fixture(scope="module")
def world() -> Iterator[ReplicatedCluster]:
    """Writes to two partitions, some of which only some stores have."""
    world = replicated_cluster(partitions=2)
    for at in range(6):
        world.write(*map(str, range(5)))
        world.write("x", on=("abc", "ab", "ac")[at % 3], partition=at % 2)
    yield world
    world.cluster.close()


def wanted(state: ClusterState, **changes: object) -> ObjectsWanted:
    return ObjectsWanted(**{"topics": frozenset(state.topics), "stores": ALL, **changes})  # type: ignore[arg-type]


def expected(state: ClusterState) -> dict[int, tuple[set[object], set[str]]]:
    """By object its slices and stores, as a reader plans them."""
    found: dict[int, tuple[set[object], set[str]]] = {}
    for key, partition in state.partitions.items():
        slices = state.slices.find(key, OffsetRange(partition.log_start, partition.next_offset))
        for part in slices_to_read(state, partition, slices):
            of = found.setdefault(part.object.number, (set(), set()))
            of[0].add(part.slice)
            of[1].update(part.stores)
    return found


@pytest.mark.parametrize("window", [1, 3, 8_192])
def test_each_object_comes_once_with_its_slices_and_stores(
    world: ReplicatedCluster, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINDOW_OBJECTS", window)
    monkeypatch.setattr(module, "WINDOW_SLICES", 4)
    state = world.state
    for chosen in (state, _sealed(state)):
        found = list(objects_to_verify(chosen, wanted(chosen)))
        numbers = [object_.named.number for object_ in found]
        assert numbers == sorted(set(numbers))
        assert {each.named.number: (set(each.slices), set(each.stores)) for each in found} == expected(chosen)


def _sealed(state: ClusterState) -> ClusterState:
    sealed = state.fork()
    sealed.slices.seal()
    sealed.objects.seal()
    return sealed


def test_a_part_can_be_asked_for(world: ReplicatedCluster) -> None:
    state = world.state
    whole = {each.named.number for each in objects_to_verify(state, wanted(state))}
    parts = [
        {each.named.number for each in objects_to_verify(state, wanted(state, share=Share(part, 4)))}
        for part in range(4)
    ]
    assert set.union(*parts) == whole
    assert sum(map(len, parts)) == len(whole)
    on_c = list(objects_to_verify(state, wanted(state, stores=frozenset({StoreId("c")}))))
    assert {store for each in on_c for store in each.stores} == {"c"}
    assert any(len(each.all_stores) > 1 for each in on_c)
    assert list(objects_to_verify(state, wanted(state, topics=frozenset({TopicId(9)})))) == []
    of_one = objects_to_verify(state, wanted(state, partitions=frozenset({PartitionIndex(1)})))
    assert {slice_.partition for each in of_one for slice_ in each.slices} == {1}


@pytest.mark.parametrize("of", [1, 3])
def test_the_sums_of_a_plan_are_those_of_its_objects(world: ReplicatedCluster, of: int) -> None:
    """Column by column as object by object."""
    for state in (world.state, _sealed(world.state)):
        for part in range(of):
            chosen = wanted(state, share=Share(part, of))
            slow: dict[tuple[str, str], ObjectSums] = {}
            for each in objects_to_verify(state, chosen):
                stored = each.named.object
                for store in each.stores:
                    records = sum(slice_.records for slice_ in slices_still_held(state, each, store))
                    sizes = slow.get((store, each.topic), ObjectSums(0, 0, 0, 0))
                    slow[store, each.topic] = ObjectSums(
                        sizes.objects + 1,
                        sizes.records + records,
                        sizes.size_bytes + stored.size_bytes + stored.index_size_bytes,
                        sizes.reads + -(-stored.size_bytes // READ_BYTES),
                    )
            found = {(store, topic.name): sums for store, topic, sums in sums_to_verify(state, chosen, READ_BYTES)}
            assert found == slow
            assert len(found) == 3


def test_what_the_log_forgot_or_the_store_need_not_have_is_no_longer_held(world: ReplicatedCluster) -> None:
    state = world.state
    first = next(objects_to_verify(state, wanted(state)))
    assert slices_still_held(state, first, StoreId("a")) == first.slices
    assert slices_still_held(state, first, StoreId("x")) == ()
    rolled = state.fork()
    (slice_, *_) = first.slices
    key = next(key for key in rolled.partitions if key.partition == slice_.partition)
    rolled.slices.remove(key, OffsetRange(slice_.start, slice_.end))
    assert slices_still_held(rolled, first, StoreId("a")) == first.slices[1:]
    deleted = state.fork()
    for key in list(deleted.partitions):
        del deleted.partitions[key]
    assert slices_still_held(deleted, first, StoreId("a")) == ()


def test_memory_does_not_grow_with_the_state() -> None:
    """At any time only a window of the slices are Python objects."""
    state = large_state(20_000, THREE)
    wanted_ = ObjectsWanted(frozenset(state.topics), frozenset(THREE))
    module.WINDOW_OBJECTS, before = 256, module.WINDOW_OBJECTS  # type: ignore[misc]
    try:
        tracemalloc.start()
        assert sum(1 for _ in objects_to_verify(state, wanted_)) == 20_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        module.WINDOW_OBJECTS = before  # type: ignore[misc]
    assert peak < 4 << 20
