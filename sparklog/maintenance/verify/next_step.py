"""The rule of recovery: from what is known of a damaged or missing object, the next step of its repair. No I/O.

    nothing seen yet, or what others have matters .. Look at the copies
    a copy is damaged or missing, another is whole . Refetch it, and look at it again
    no copy is whole, and each was read ............ Salvage the good batches
    done, or nothing can be done now ............... Close the copy, with what to report

The rule is safe for these reasons, whatever else happens meanwhile:

1. A damaged copy is fetched, and so deleted, only if another store's copy was seen to be whole: it may be the last one.
   A store that was fenced or removed since does not count. `repair.py` looks at the whole copy again just before.
2. Nothing is salvaged, so nothing is given up, unless every store that may have the object was read in this run.
   Stores of replicas count even if by the chain their logs end before the object: they may still have its bytes. So
   while one of them is fenced, nothing is salvaged.
3. After each fetch the copy is looked at again: a copy made by the stores themselves compares only lengths.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from sparklog.core.maintenance.objects_to_verify import ObjectToVerify
from sparklog.core.placement.held_slices import holders_of
from sparklog.core.state import ClusterState
from sparklog.core.types import Slice, StoreId, TopicPartition
from sparklog.log.check.object_check import StoredPart
from sparklog.log.check.sighting import Sighting, key_of
from sparklog.maintenance.job_report import WorkOutcome

ATTEMPTS: Final = 3  # of fetching one copy


class Look(msgspec.Struct, frozen=True):
    """Look at the copies on these stores."""

    stores: tuple[StoreId, ...]


class Refetch(msgspec.Struct, frozen=True):
    """Fetch the copy of `store` again, from `source`, or if that is None from any holder.

    `counted`: the chain says that the store has the copy, and it is not whole, so its loss is reported first. `unheld`:
    at least one slice of the object has no holder, so it does not expect the copy until it is reported.
    """

    store: StoreId
    source: StoreId | None
    counted: bool
    unheld: bool


class Salvage(msgspec.Struct, frozen=True):
    """Rebuild the object from the good batches of these copies, none of which is whole.

    `others`: stores that have nothing of the object, and may have its index.
    """

    sightings: tuple[Sighting, ...]
    others: tuple[StoreId, ...] = ()


class Close(msgspec.Struct, frozen=True):
    """Report the outcome for the copy of `store` (None: it is whole), and do nothing more about it in this run."""

    store: StoreId
    outcome: WorkOutcome | None
    message: str


Step = Look | Refetch | Salvage | Close


class Standing(msgspec.Struct, frozen=True):
    """The copies of an object according to the chain.

    An object has a slice for each of its partitions, and a store may have some of them and lack others. `holders`: the
    stores that have a slice of it. `lacking`: the stores that lack a slice of it, although they have a replica of the
    partition. `replicas`: the stores that can be asked for it, because they are not fenced and have replicas of its
    partitions. `others`: stores that can be asked, and have no replica; they may still have it from before a move.
    `fenced`: stores that can't be asked, and may have it whole. `unheld`: at least one slice of it has no holder.
    """

    holders: frozenset[StoreId] = frozenset()
    lacking: frozenset[StoreId] = frozenset()
    replicas: frozenset[StoreId] = frozenset()
    others: frozenset[StoreId] = frozenset()
    fenced: frozenset[StoreId] = frozenset()
    unheld: bool = False


class Case(msgspec.Struct, frozen=True):
    """An object, and what this run has seen and decided about it.

    `found`: the damage that led to the case. `lacking`: the stores that lack the object according to the chain, at the
    time of the plan. `sightings`: what was seen since, oldest first. `fetched`: the store of each fetch of a copy.
    `unfilled`: why the replicas of a store could not be filled by the last fetch. `closed`: the stores about whose
    copies nothing more is done.
    """

    object: ObjectToVerify
    found: tuple[Sighting, ...] = ()
    lacking: frozenset[StoreId] = frozenset()
    sightings: tuple[Sighting, ...] = ()
    fetched: tuple[StoreId, ...] = ()
    unfilled: Mapping[StoreId, str] = {}
    closed: frozenset[StoreId] = frozenset()

    @property
    def is_whole_nowhere(self) -> bool:
        """True if a damaged copy was seen, and no whole one."""
        newest = {of.store: of for of in (*self.found, *self.sightings)}.values()
        was_damaged = bool(self.found) or any(StoredPart.OBJECT in of.damaged_parts for of in newest)
        return was_damaged and not any(of.object_is_whole for of in newest)

    def of(self, store: StoreId) -> _CopyHistory:
        """Return the part of the case about the copy on one store."""
        was_found = any(of.store == store for of in self.found)
        seen = [of for of in self.sightings if of.store == store]
        read = [of for of in (*self.found, *seen) if of.store == store and of.check is not None]
        return _CopyHistory(
            store,
            newest=seen[-1] if seen else None,
            read=read[-1] if read else None,
            was_due=was_found or store in self.lacking,
            was_found=was_found,
            was_damaged=was_found or any(of.damaged_parts for of in read),
            fetches=self.fetched.count(store),
            unfilled=self.unfilled.get(store, ""),
        )


class _CopyHistory(msgspec.Struct, frozen=True):
    """The copy on one store: its newest sighting, the newest one that could be read, and how often it was fetched.

    `was_due`: the run came to the object because of this copy. `was_found`: because it was found damaged.
    `was_damaged`: not just missing, as the chain says.
    """

    store: StoreId
    newest: Sighting | None
    read: Sighting | None
    was_due: bool
    was_found: bool
    was_damaged: bool
    fetches: int
    unfilled: str


def standing_of(state: ClusterState, slices: Sequence[Slice]) -> Standing:
    """Return what the chain says about the object that has these slices."""
    holders, replicas, lacking, unheld = set[StoreId](), set[StoreId](), set[StoreId](), False
    for slice_ in slices:
        held_by = holders_of(state, slice_)
        of_partition = state.partitions[TopicPartition(slice_.topic_id, slice_.partition)].replication.replicas
        holders.update(held_by)
        replicas.update(of_partition)
        lacking.update(set(of_partition) - set(held_by))
        unheld = unheld or not held_by
    askable, may_have_it = state.registrations().keys(), holders | replicas
    return Standing(
        holders=frozenset(holders),
        lacking=frozenset(lacking & askable),
        replicas=frozenset(may_have_it & askable),
        others=frozenset(askable - may_have_it),
        fenced=frozenset(may_have_it - askable),
        unheld=unheld,
    )


def next_step(standing: Standing, case: Case, due: Collection[StoreId]) -> Step | None:
    """Return the next step of a repair, None if there is none. `due`: the stores that the run is to repair.

    A copy that the run has fetched is due from then on.
    """
    due = {*due, *case.fetched}
    askable = standing.replicas | standing.others  # a store that was fenced or removed since it was looked at is not
    case = msgspec.structs.replace(case, sightings=tuple(of for of in case.sightings if of.store in askable))
    key, newest = key_of(case.object), {of.store: of for of in case.sightings}
    lacking = standing.lacking & due
    unseen = standing.replicas - newest.keys()
    returned = {of.store for of in case.found if of.store in unseen - case.closed}  # it was fenced at the first look
    if not newest and (first := unseen if case.found else lacking):
        return Look(tuple(sorted(first)))
    read = [of for of in newest.values() if of.check is not None]
    damaged = [of for of in read if of.store in standing.holders and not of.object_is_whole]
    if not case.found and not any(of.store in due for of in damaged):
        damaged = []  # a look at all copies came across them, but the run is about other stores
    at_stake = bool(damaged) or standing.unheld  # other copies matter, also those on which the chain does not count
    wrong = [of for of in read if (of in damaged or of.store in lacking) and of.store not in case.closed]
    if returned or (unseen and any(at_stake or StoredPart.OBJECT in of.damaged_parts for of in wrong)):
        return Look(tuple(sorted(unseen)))
    for store in sorted({*newest, *(of.store for of in case.found)} - case.closed):
        if (close := _close(standing, case.of(store), key, is_lacking=store in lacking)) is not None:
            return close
    if not wrong:
        return None
    copy = min(wrong, key=lambda of: (_is_counted(standing, of), of.store not in due, of.store))
    whole = copy.store if copy.object_is_whole else min((of.store for of in read if of.object_is_whole), default=None)
    if whole is not None or not (at_stake or StoredPart.OBJECT in copy.damaged_parts):
        return _refetch(standing, case.of(copy.store), key, whole)
    unread = [f"store {store} is fenced, and may have it whole" for store in sorted(standing.fenced)]
    unread += [f"store {of.store}: {of.error}" for of in newest.values() if of.check is None]
    if not at_stake:
        kept = "; ".join(unread) or "no store has it whole: put it back"
        return Close(copy.store, WorkOutcome.FAILED, f"{key}: {copy}; it is kept: {kept}")
    if unread:
        reason = f"it can't be repaired now: {'; '.join(unread)}"
        return Close(copy.store, WorkOutcome.FAILED, f"{key}: {copy}; {reason}")
    left = [of for of in read if of.store in standing.holders or StoredPart.OBJECT in of.damaged_parts]
    left += [of for of in wrong if of not in left and not standing.holders]
    if not any(of.store in case.closed for of in left):
        return Salvage(tuple(left), tuple(of.store for of in read if of not in left))
    if copy.store in standing.holders:  # by now: this look at it is older than what was salvaged in vain
        return None
    return Close(copy.store, WorkOutcome.FAILED, f"{key}: store {copy.store} lacks it: no store has it whole")


def _is_counted(standing: Standing, of: Sighting) -> bool:
    """True if the chain says that the store has the copy, which is not whole."""
    return of.store in standing.holders and not of.object_is_whole


def _close(standing: Standing, copy: _CopyHistory, key: str, *, is_lacking: bool) -> Close | None:
    """Close a copy that is whole by now, or that can't be read. None if there is more to do, or nothing to report."""
    store, now = copy.store, copy.newest
    if now is not None and now.check is not None:
        has_all = store in standing.holders and store not in standing.lacking
        if not has_all or not now.object_is_whole or not (copy.was_due or copy.fetches):
            return None
        if not now.is_whole:
            return Close(store, WorkOutcome.FAILED, f"{key}: {now.damage}")
        done = "it was damaged, and was fetched again" if copy.was_damaged else "it was missing, and was fetched"
        return Close(store, None, "" if copy.was_found and not copy.fetches else f"{key}: {done}")
    if store in standing.fenced and copy.was_found:
        problem = f"it can't be repaired now: store {store} is fenced, and may have it whole"
    elif now is None:
        return None  # the store has no replica any more
    elif copy.fetches and copy.was_damaged:
        problem = f"the repair broke off: {now.error}"
    elif copy.was_found:
        problem = f"it can't be repaired now: store {store}: {now.error}"
    else:
        return Close(store, WorkOutcome.FAILED, f"it could not be filled: {now.error}") if is_lacking else None
    return Close(store, WorkOutcome.FAILED, f"{key}: {copy.read}; {problem}")


def _refetch(standing: Standing, copy: _CopyHistory, key: str, whole: StoreId | None) -> Refetch | Close:
    """Fetch a copy again, or close it if that was tried often enough."""
    store, now, problem = copy.store, copy.newest, copy.unfilled
    if copy.fetches < ATTEMPTS and not (copy.fetches and problem and not copy.was_found):
        return Refetch(store, whole, now is not None and _is_counted(standing, now), standing.unheld)
    if not copy.was_found and problem:
        text = f"store {store} lacks it: {problem}"
    else:
        text = f"{now}; it could not be fetched again: {problem or 'it was damaged again: run recovery again'}"
    return Close(store, WorkOutcome.FAILED, f"{key}: {text}")
