"""Finds out which objects a store has lost: by samples, and then where each damaged log breaks off.

Searches are machines (`core/machine.py`). The agent of a store drives them, and so does the registration of a store
that is back.

    LookFor  look for objects on the store -> for each, True or False, or the SparklogError of its look
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

    The reply is a list: for each object True if it is there in full length, False if not, or a SparklogError.
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
    """Objects of a sample that are missing or truncated, at most one per partition. Raises the store's error if looks
    stay unanswered.

    The sample: the newest object of each partition in `newest_of`, and up to RANDOM_OBJECTS in total, drawn from the
    partitions `all_`.
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
    """The newest state, and the end of what the store holds of each damaged partition in that state.

    With `whole_too`, partitions that lack nothing are included, else left out. If a partition changes during the
    search, it is searched again. Raises the store's error if looks stay unanswered.
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
    """The first object of each partition that is missing or truncated; partitions that lack nothing are left out.

    An empty store costs one look for each partition; a store that lacks little costs a look for each object.
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
    """Take the next `in_a_row` objects of each partition in `rest`, until there are LOOKS_AT_ONCE.

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
    """Look for each object, and repeat looks that failed. Returns each object with True if it is there.

    Raises the store's error if no object of the first round is answered, or VAIN_LOOKS rounds in a row bring no answer.
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

    The store must still have its replica, the partition its version, and the log the slice of the first missing object.
    """
    if not _has_replica(now, store, key) or (missing is not None and not is_still_held(now, store, missing)):
        return False  # retention, a move or a rewrite came before the look
    return now.partitions[key].replication.version == before.partitions[key].replication.version


def _has_replica(state: ClusterState, store: StoreId, key: TopicPartition) -> bool:
    """True if the partition exists and the store has a replica of it."""
    partition = state.partitions.get(key)
    return partition is not None and store in partition.replication.replicas


def _held_end(state: ClusterState, store: StoreId, key: TopicPartition, missing: HeldObject | None) -> HeldEnd:
    """The end of what the store holds of a partition: the start of the first `missing` object; the LEO if None is
    missing.
    """
    log_end = state.partitions[key].replication.log_end(store)
    return HeldEnd(key.topic_id, key.partition, log_end if missing is None else missing.start)
