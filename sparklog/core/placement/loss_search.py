"""Finds the objects that a store has lost: first by samples, then the first missing object of each damaged log.

Searches are machines (`core/machine.py`) with two requests:

    LookFor  look for objects on the store -> for each, True or False, or a SparklogError if the store can't tell
    Newest   catch up with the chain -> the state
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

from sparklog.core.commands import HeldEnd
from sparklog.core.errors import SparklogError
from sparklog.core.machine import Machine
from sparklog.core.placement.held_objects import HeldObject, all_held, is_still_held, newest_held, some_held
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId, TopicPartition

RANDOM_OBJECTS: Final = 32  # of a sample, beside the newest of each partition
LOOKS_AT_ONCE: Final = 256
VAIN_LOOKS: Final = 4  # rounds in a row without any answer, after there was one
_MOST_IN_A_ROW: Final = 64  # objects of one partition that are looked for at once

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LookFor:
    """Look for these objects on the store.

    The reply is a list: for each object True if it is there in full length, False if it is missing or truncated, or a
    SparklogError if the store can't tell.
    """

    objects: list[HeldObject]


@dataclass(frozen=True, slots=True)
class Newest:
    """Catch up with the chain. Reply: the ClusterState."""


Search = Machine[LookFor | Newest, Any, T]


def missing_of_sample(
    state: ClusterState,
    store: StoreId,
    newest_of: Collection[TopicPartition],
    all_: Collection[TopicPartition],
    below: Callable[[int], int],
) -> Search[dict[TopicPartition, HeldObject]]:
    """Look for a sample of objects, and return missing or truncated ones, at most one per partition.

    The sample: the newest object of each partition in `newest_of`, and up to RANDOM_OBJECTS random objects of the
    partitions `all_`. `below(n)` draws a number from [0, n). Raises the store's error if it keeps failing.
    """
    newest = [held for key in newest_of if (held := newest_held(state, store, key)) is not None]
    missing: dict[TopicPartition, HeldObject] = {}
    rest = iter([*newest, *some_held(state, store, all_, RANDOM_OBJECTS, below)])
    while chunk := list(islice(rest, LOOKS_AT_ONCE)):
        for held, is_there in (yield from _looked(chunk)):
            if not is_there:
                missing[held.topic_partition] = held
    return missing


def held_ends(
    state: ClusterState, store: StoreId, damaged: Collection[TopicPartition], *, whole_too: bool
) -> Search[tuple[ClusterState, dict[TopicPartition, HeldEnd]]]:
    """Return the newest state, and in that state the end of the store's log of each damaged partition.

    The log ends at the first object that is missing or truncated. A partition that lacks nothing is left out; with
    `whole_too`, it is included, and its log ends at the LEO. A partition that changes during the search is searched
    again, or left out if its replica on the store is gone. Raises the store's error if requests keep failing.
    """
    ends: dict[TopicPartition, HeldEnd] = {}
    rest = list(damaged)
    while rest:
        missing = yield from _first_missing(state, store, rest)
        newer: ClusterState = yield Newest()
        unchanged = [key for key in rest if _is_unchanged(state, newer, store, key, missing.get(key))]
        for key in unchanged:
            if whole_too or key in missing:
                ends[key] = _held_end(state, store, key, missing.get(key))
        rest = [key for key in rest if key not in unchanged and _has_replica(newer, store, key)]
        state = newer
    return state, ends


def _first_missing(
    state: ClusterState, store: StoreId, partitions: Collection[TopicPartition]
) -> Search[dict[TopicPartition, HeldObject]]:
    """Return the first missing or truncated object of each partition; partitions that lack nothing are left out.

    Looks for one object per partition if the store is empty, and for nearly every object if the store lacks little.
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
    """Take the next `in_a_row` objects of each partition in `rest`, until there are LOOKS_AT_ONCE objects or more.

    Returns the objects, and the partitions that have no more.
    """
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


def _looked(wanted: Collection[HeldObject]) -> Search[list[tuple[HeldObject, bool]]]:
    """Look for each object, in more rounds if some looks fail. Returns each object, with True if it is in full length.

    Raises the store's error if all looks fail in the first round, or in VAIN_LOOKS rounds in a row.
    """
    looked_at: list[tuple[HeldObject, bool]] = []
    rest = list(wanted)
    vain = 0
    while rest:
        replies: list[object] = yield LookFor(rest)
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


def _is_unchanged(
    before: ClusterState, now: ClusterState, store: StoreId, key: TopicPartition, missing: HeldObject | None
) -> bool:
    """True if the result of a search in the state `before` is still valid in `now`, a newer state.

    The store must still have a replica of the partition, and the partition's version must be the same. If an object
    was `missing`, its slice must still be in the log.
    """
    if not _has_replica(now, store, key) or (missing is not None and not is_still_held(now, store, missing)):
        return False  # retention, a move or a rewrite came before the look
    return now.partitions[key].replication.version == before.partitions[key].replication.version


def _has_replica(state: ClusterState, store: StoreId, key: TopicPartition) -> bool:
    """True if the partition exists and the store has a replica of it."""
    partition = state.partitions.get(key)
    return partition is not None and store in partition.replication.replicas


def _held_end(state: ClusterState, store: StoreId, key: TopicPartition, missing: HeldObject | None) -> HeldEnd:
    """Return the end of the store's log of a partition: the start of `missing`, or the LEO if `missing` is None.

    `missing`: the first object of the partition that the store lacks.
    """
    log_end = state.partitions[key].replication.log_end(store)
    return HeldEnd(key.topic_id, key.partition, log_end if missing is None else missing.start)
