"""Assignment of replicas to stores: spread over zones first, then evenly over stores (KIP-36, KIP-841).

As in Kafka, zones should have about the same number of stores: a store that is alone in its zone gets all replicas of
that zone. Stores without a zone form a zone of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest

import msgspec

from sparklog.core.describe.readable import counted
from sparklog.core.errors import InvalidReplicationFactor
from sparklog.core.types import StoreId

Assignment = tuple[tuple[StoreId, ...], ...]  # the stores of each partition, the preferred leader first


class Home(msgspec.Struct, frozen=True):
    """A store that may get replicas. A `silent` store, whose agent is down, gets them last."""

    store: StoreId
    zone: str = ""
    silent: bool = False


def assign(
    homes: Collection[Home], partitions: int, replication_factor: int, first: int, existing: Assignment = ()
) -> Assignment:
    """Assign stores to the replicas of `partitions` new partitions.

    `homes`: the stores to choose from, at least `replication_factor` of them. `existing`: the assignment of the topic's
    existing partitions; the new ones continue it as if all had been created at once. `first`, modulo the number of
    stores, is the index in `_ring` of the store that leads the topic's first partition.

    The replicas of a partition are in different zones if there are enough zones. The stores lead in turn, in the order
    of `_ring`. Each time that a store leads again, its followers are on other stores than the time before. So if it
    fails, the next leaders of its partitions are spread over all other stores. A silent store leads only if all are
    silent, and gets other replicas only if there are too few other stores.
    """
    ring = _ring(homes)
    size, others = len(ring), max(len(ring) - 1, 1)
    places = {home.store: place for place, home in enumerate(ring)}
    load = Counter(store for replicas in existing for store in replicas)
    led = Counter(replicas[0] for replicas in existing)
    assignment = []
    for partition in range(len(existing), len(existing) + partitions):
        leader = min(ring, key=lambda home: (home.silent, led[home.store], (places[home.store] - first) % size))
        behind, turn = places[leader.store] + 1, partition // size
        ranks = {home.store: ((place - behind) % size - turn) % others for place, home in enumerate(ring)}
        replicas = [leader]
        while len(replicas) < replication_factor:
            replicas.append(_next(ring, replicas, load, ranks))
        led[leader.store] += 1
        load.update(home.store for home in replicas)
        assignment.append(tuple(home.store for home in replicas))
    return tuple(assignment)


def moved_off(
    leaving: StoreId, assignment: Iterable[tuple[StoreId, ...]], homes: Collection[Home], load: Mapping[StoreId, int]
) -> Assignment:
    """Return the new replicas of each partition in `assignment`, with another store in place of `leaving`.

    `load` is the number of replicas that each store has now. Raises InvalidReplicationFactor if no store is left for a
    partition, because every other store already has one of its replicas.
    """
    ring = [home for home in _ring(homes) if home.store != leaving]
    by_store = {home.store: home for home in homes}
    ranks = {home.store: place for place, home in enumerate(ring)}
    growing = Counter(load)
    moved = []
    for replicas in assignment:
        staying = [by_store.get(store, Home(store)) for store in replicas if store != leaving]
        if all(home in staying for home in ring):
            raise InvalidReplicationFactor(
                f"the replicas {', '.join(replicas)} need {counted(len(replicas), 'store')}; without {leaving} there "
                f"are {', '.join(home.store for home in ring) or 'none'}: first add a store (sparklog store add), "
                "and its agent; or give the topic fewer replicas (sparklog replica move TOPIC --to STORES)"
            )
        substitute = _next(ring, staying, growing, ranks)
        growing[substitute.store] += 1
        moved.append(tuple(substitute.store if store == leaving else store for store in replicas))
    return tuple(moved)


def _ring(homes: Iterable[Home]) -> list[Home]:
    """Return the stores in rounds: one of each zone, then a second one of each zone that has two, and so on.

    Neighbours are in different zones, until only one zone has stores left.
    """
    zones: dict[str, list[Home]] = {}
    for home in sorted(homes, key=lambda home: (home.zone, home.store)):
        zones.setdefault(home.zone, []).append(home)
    return [home for row in zip_longest(*zones.values()) for home in row if home is not None]


def _next(
    ring: Sequence[Home], replicas: Sequence[Home], load: Mapping[StoreId, int], ranks: Mapping[StoreId, int]
) -> Home:
    """Return the store for one more replica of a partition that already has `replicas`.

    Stores that are not silent come first, then those in the zones with the fewest of `replicas`, then those with the
    lowest `load` (the number of replicas on the store), then those with the lowest number in `ranks`.
    """
    in_zone = Counter(home.zone for home in replicas)
    free = (home for home in ring if home not in replicas)
    return min(free, key=lambda home: (home.silent, in_zone[home.zone], load[home.store], ranks[home.store]))
