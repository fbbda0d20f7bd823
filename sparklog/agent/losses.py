"""Find out which objects a store has lost (rules S1, F2): by samples, and then where each damaged log breaks off."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from itertools import islice
from typing import Final

from sparklog.agent.requests import Look, Reply, Request
from sparklog.core.errors import SparklogError
from sparklog.core.held_objects import HeldObject, all_held, newest_held, some_held
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId, TopicPartition
from sparklog.host.dice import Dice

RANDOM_OBJECTS: Final = 32  # of a sample, beside the newest of each partition
LOOKS_AT_ONCE: Final = 256
VAIN_LOOKS: Final = 4  # in a row, once something has answered
_MOST_IN_A_ROW: Final = 64  # objects of one partition that are looked for at once

Looking = Generator[list[Request], list[Reply], dict[TopicPartition, HeldObject]]


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
