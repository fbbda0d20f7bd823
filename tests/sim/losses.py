"""Faults that take objects away: a store wiped or rolled back to an old copy, an object lost or damaged.

They happen only where a cluster under clean rules can bear them: somebody else in the ISR or ELR has every committed
record whole. So whatever is missing in the end is the fault of the code.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from sparklog.core.state import Partition
from sparklog.core.types import OffsetRange, StoreId, TopicPartition
from sparklog.storage.keys import INCARNATION, data_key, parse_data_key
from tests.sim.stores import META, SimStore

if TYPE_CHECKING:
    from tests.sim.world import World

Copy = dict[str, bytes]
FOR_EVER = 1 << 60


def happen(world: World, kind: str, dice: random.Random) -> None:
    """Do it to some store that can bear it, if there is one."""
    stores = [store for name, store in world.stores.items() if name != META and can_bear(world, name)]
    if not stores or not world.shape.may_lose:
        return
    store = dice.choice(stores)
    match kind:
        case "store-wiped":
            _take(world, store, list(store.bodies))
        case "store-rolled-back":
            copy = world.faults.copies.pop(store.name, None)
            if copy is None or copy.get(INCARNATION) != store.bodies.get(INCARNATION):
                world.faults.copies[store.name] = {key: store.bodies[key] for key in store.bodies if store.holds(key)}
                return
            gone = [key for key in store.bodies if key not in copy]
            _take(world, store, gone)
            for key in copy.keys() - store.bodies.keys():
                store.bodies[key] = copy[key]
                store.destroyed.pop(key, None)
        case _:
            keys = [key for key in sorted(store.bodies) if key.endswith((".arrow", ".index"))]
            if not keys:
                return
            key = dice.choice(keys)
            if kind == "object-lost":
                _take(world, store, [key])
            else:
                body = bytearray(store.bodies[key])
                body[dice.randrange(len(body))] ^= 1 << dice.randrange(8)
                store.bodies[key] = bytes(body)
                store.destroyed[key] = FOR_EVER  # its size is right: nobody sees it who does not read it
                world.at(dice.choice((5_000, 60_000)), lambda: _take_damaged(world, store, key))
    world.faults.count(kind)
    world.note("!", kind, store.name)


def can_bear(world: World, store: StoreId) -> bool:
    """Whether each partition on this store has its committed records whole on another one that may lead."""
    state = world.observer.head.state
    if any(other.fenced for other in state.stores.values()):
        return False
    if any(_is_impaired(world, other) for name, other in world.stores.items() if name not in (META, store)):
        return False
    return all(
        any(_is_whole(world, key, partition, other) for other in _leaders(partition) if other != store)
        for key, partition in state.partitions.items()
        if store in partition.replication.replicas
    )


def _is_impaired(world: World, store: SimStore) -> bool:
    """Whether the store still lacks something that a fault took and that is named, or may be yet."""
    state = world.observer.head.state
    named = {each.object.upload_id for each in state.objects}
    for key in store.destroyed:
        name = parse_data_key(key)
        if name is None or name.upload_id in named or name.n0 >= state.floor:
            return True
    return False


def _leaders(partition: Partition) -> tuple[StoreId, ...]:
    return (*partition.replication.isr, *partition.replication.elr)


def _is_whole(world: World, key: TopicPartition, partition: Partition, store: StoreId) -> bool:
    """Whether this store really has every record below HW, in whole objects."""
    state = world.observer.head.state
    topic = state.topics[key.topic_id].name
    bodies = world.stores[store]
    if not bodies.holds(INCARNATION):
        return False
    slices = state.slices.find(key, OffsetRange(partition.log_start, partition.high_watermark))
    return all(
        bodies.holds(data_key(named, topic))
        for each in slices
        if (named := state.objects.get(each.object_number)) is not None
    )


def _take(world: World, store: SimStore, keys: list[str]) -> None:
    for key in keys:
        store.bodies.pop(key, None)
        store.destroyed[key] = world.observer.head.n


def _take_damaged(world: World, store: SimStore, key: str) -> None:
    """An administrator removes a damaged object, so that it can be copied anew."""
    if store.destroyed.get(key) == FOR_EVER:
        _take(world, store, [key])
