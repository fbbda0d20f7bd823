"""Find out which objects a store has lost (rules S1, F2): by samples, and then where each damaged log breaks off."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from itertools import islice
from typing import Final

from sparklog.agent.requests import Look, Reply, Request
from sparklog.core.commands import HeldEnd
from sparklog.core.errors import DuplicateBrokerRegistration, InconsistentClusterId, SparklogError
from sparklog.core.replicas.held_objects import HeldObject, all_held, is_still_held, newest_held, some_held
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import StoreId, TopicPartition
from sparklog.host.dice import Dice
from sparklog.log.incarnation import Incarnation
from sparklog.storage.keys import INCARNATION

RANDOM_OBJECTS: Final = 32  # of a sample, beside the newest of each partition
LOOKS_AT_ONCE: Final = 256
VAIN_LOOKS: Final = 4  # in a row, once something has answered
_MOST_IN_A_ROW: Final = 64  # objects of one partition that are looked for at once

Looking = Generator[list[Request], list[Reply], dict[TopicPartition, HeldObject]]


def is_of_another_life(store: Store, mark: Incarnation | None, state: ClusterState) -> bool:
    """Whether the store was wiped or swapped. Raises if it belongs to another cluster, or is another store."""
    if mark is None:
        return True
    if mark.chain_id not in state.lineage:
        raise InconsistentClusterId(
            f"wanted store {store.store} of cluster {state.chain_id}, found {INCARNATION} of cluster "
            f"{mark.chain_id} at {store.url}: the agent stops and touches nothing"
        )
    for other in state.stores.values():
        if other.incarnation == mark.incarnation and other.store != store.store:
            raise DuplicateBrokerRegistration(
                f"wanted store {store.store} at {store.url}, found the {INCARNATION} of store {other.store} there: "
                "two stores can't be at one place"
            )
    return mark.incarnation != store.incarnation


def is_unchanged(
    before: ClusterState, now: ClusterState, store: StoreId, key: TopicPartition, missing: HeldObject | None
) -> bool:
    """Whether what was seen of a partition by the state `before` still holds: the same slices, on this store."""
    if not has_replica(now, store, key) or (missing is not None and not is_still_held(now, store, missing)):
        return False  # retention, a move or a rewrite was quicker than the look
    return now.partitions[key].replication.version == before.partitions[key].replication.version


def has_replica(state: ClusterState, store: StoreId, key: TopicPartition) -> bool:
    """Whether the store has a replica of the partition, if there is such a partition."""
    partition = state.partitions.get(key)
    return partition is not None and store in partition.replication.replicas


def held_end(state: ClusterState, store: StoreId, key: TopicPartition, missing: HeldObject | None) -> HeldEnd:
    """How far the store holds a partition whose first object that is missing is this one."""
    log_end = state.partitions[key].replication.log_end(store)
    return HeldEnd(key.topic_id, key.partition, log_end if missing is None else missing.start)


def sample(
    state: ClusterState,
    store: StoreId,
    newest_of: Collection[TopicPartition],
    all_: Collection[TopicPartition],
    dice: Dice,
) -> list[HeldObject]:
    """The newest objects of the partitions `newest_of`, and RANDOM_OBJECTS of all of them."""
    newest = [held for key in newest_of if (held := newest_held(state, store, key)) is not None]
    return [*newest, *some_held(state, store, all_, RANDOM_OBJECTS, dice.below)]


def missing_of(sampled: Collection[HeldObject]) -> Looking:
    """The objects of a sample that are missing or cut, one for each partition. Raises the store's error."""
    missing: dict[TopicPartition, HeldObject] = {}
    rest = iter(sampled)
    while chunk := list(islice(rest, LOOKS_AT_ONCE)):
        for held, is_there in (yield from _looked(chunk)):
            if not is_there:
                missing[held.topic_partition] = held
    return missing


def first_missing(state: ClusterState, store: StoreId, partitions: Collection[TopicPartition]) -> Looking:
    """The first object of each partition that is missing or cut; partitions that miss nothing are left out.

    An empty store costs one look for each partition; a store that misses little costs a look for each object.
    """
    missing: dict[TopicPartition, HeldObject] = {}
    rest = {key: all_held(state, store, key) for key in sorted(partitions)}
    in_a_row = 1
    while rest:
        chunk, done = _next_of(rest, in_a_row)
        for held, is_there in (yield from _looked(chunk)):
            if not is_there:
                missing.setdefault(held.topic_partition, held)
        rest = {key: held for key, held in rest.items() if key not in missing and key not in done}
        in_a_row = min(2 * in_a_row, _MOST_IN_A_ROW)
    return missing


def _next_of(
    rest: dict[TopicPartition, Iterator[HeldObject]], in_a_row: int
) -> tuple[list[HeldObject], set[TopicPartition]]:
    """The next objects of as many partitions as fit into LOOKS_AT_ONCE, and the partitions that end there."""
    chunk: list[HeldObject] = []
    done: set[TopicPartition] = set()
    for key, objects in rest.items():
        if len(chunk) >= LOOKS_AT_ONCE:
            break
        taken = list(islice(objects, in_a_row))
        chunk += taken
        if len(taken) < in_a_row:
            done.add(key)
    return chunk, done


def _looked(
    wanted: Collection[HeldObject],
) -> Generator[list[Request], list[Reply], list[tuple[HeldObject, bool]]]:
    """Whether each object is there. Looks without an answer are repeated. Raises the error if none is answered."""
    looked_at: list[tuple[HeldObject, bool]] = []
    rest = list(wanted)
    vain = 0
    while rest:
        replies: list[Reply] = yield [Look(held) for held in rest]
        unanswered = []
        for held, reply in zip(rest, replies, strict=True):
            if isinstance(reply, SparklogError):
                unanswered.append(held)
                error = reply
            else:
                looked_at.append((held, bool(reply)))
        vain = vain + 1 if len(unanswered) == len(rest) else 0
        if vain and (vain == VAIN_LOOKS or not looked_at):
            raise error
        rest = unanswered
    return looked_at
