"""Repair damaged objects of a store from other stores that have them whole.

    another holder read, and whole -> ReportLoss: the store's log ends before the damage, in the chain
    -> the damaged object and its index deleted by name -> filled as any replica that lags (`replication.py`) -> read

The order matters. Nothing is deleted before the chain has ceased to count on it, so nobody elects or acknowledges by a
copy that is not there; and a run that dies anywhere leaves a store with a new registration, and so without a recovery
point: the next run reads everything, finds what is left to do, and does it. A loss is reported only if it is harmless:
other replicas have all that the store has. Else the repair waits for them. Readers ask the next holder meanwhile.

An agent may take a damaged object that is still there for the copy that it wants (it compares lengths). So the job
looks again after the store was filled, and begins anew if it has to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from sparklog.core.commands import HeldEnd, ReportLoss
from sparklog.core.errors import NotEnoughReplicas, SparklogError, StoreUnavailable
from sparklog.core.recovery import held_slices, holders_of, partitions_of
from sparklog.core.state import ClusterState
from sparklog.core.types import ObjectNumber, Offset, StoreId, TopicPartition
from sparklog.log.incarnation import check_incarnation
from sparklog.log.object_check import ObjectCheck, Part, Problem
from sparklog.maintenance.frame import JobFrame, chunks
from sparklog.maintenance.object_checks import ObjectToCheck, checked, packed
from sparklog.maintenance.replication import ReplicationJob, check_registered
from sparklog.maintenance.report import Outcome
from sparklog.maintenance.salvage import salvage
from sparklog.storage.keys import index_key

ATTEMPTS: Final = 3

Note = Callable[[StoreId, Collection[TopicPartition], Outcome | None, str], None]


class Damage(msgspec.Struct, frozen=True):
    """An object that is not whole on a store, with the slices of it that the store should hold, and what was found."""

    store: StoreId
    object: ObjectToCheck
    check: ObjectCheck

    @property
    def number(self) -> ObjectNumber:
        """The number of the object."""
        return self.object.named.number

    def __str__(self) -> str:
        return f"store {self.store}: {'; '.join(map(str, self.check.findings))}"


class Repair:
    """Repairs the damages of one run. `note` is called with what became of each.

    Afterwards `repaired` are the objects that were fetched again and read, by store, and `registrations` those that the
    stores got when their losses were reported.
    """

    def __init__(self, frame: JobFrame, note: Note, *, accept_loss: bool) -> None:
        self.repaired: dict[StoreId, set[ObjectNumber]] = {}
        self.registrations: dict[StoreId, int] = {}
        self._frame = frame
        self._note = note
        self._accept_loss = accept_loss

    def run(self, damages: Sequence[Damage]) -> None:
        """Repair what can be repaired from another store; put together, give up or report the rest."""
        by_object: dict[ObjectNumber, list[Damage]] = {}
        for damage in damages:
            by_object.setdefault(damage.number, []).append(damage)
        whole, silent = self._elsewhere(by_object)
        repairable: dict[StoreId, list[Damage]] = {}
        for number, of_object in by_object.items():
            if number in whole:
                for damage in of_object:
                    repairable.setdefault(damage.store, []).append(damage)
            elif number in silent:
                for damage in of_object:
                    self._fail(damage, f"{damage}; it can't be repaired now: {silent[number]}")
            else:
                salvage(self._frame, of_object, self._note, accept_loss=self._accept_loss)
        for store, of_store in repairable.items():
            try:
                self._repair(store, of_store)
            except SparklogError as error:
                for damage in of_store:
                    self._fail(damage, f"{damage}; the repair broke off: {error}")

    def _elsewhere(
        self, by_object: dict[ObjectNumber, list[Damage]]
    ) -> tuple[set[ObjectNumber], dict[ObjectNumber, str]]:
        """The objects that another holder has whole; and why it is not known of others. Adds the damages found."""
        wanted: dict[StoreId, list[ObjectToCheck]] = {}
        with self._frame.connection.follower.current() as state:
            for of_object in by_object.values():
                known = {damage.store for damage in of_object}
                for store in _holders(state, of_object) - known:
                    wanted.setdefault(store, []).append(of_object[0].object)
        whole: set[ObjectNumber] = set()
        silent: dict[ObjectNumber, str] = {}
        for store, objects in wanted.items():
            for round_ in chunks(list(packed(objects)), self._frame.tasks.tasks_at_once):
                try:
                    outcomes = checked(self._frame, store, round_, mend=False)
                except SparklogError as error:
                    silent.update((object_.named.number, str(error)) for pack in round_ for object_ in pack)
                    continue
                for object_, outcome in outcomes:
                    number = object_.named.number
                    if outcome.check is None:
                        silent[number] = f"store {store}: {outcome.error}"
                    elif outcome.check.object_is_whole:
                        whole.add(number)
                    else:
                        by_object[number].append(Damage(store, object_, outcome.check))
        return whole, silent

    def fill(self, store: StoreId, objects: Sequence[ObjectToCheck]) -> None:
        """Fetch objects that the store lacks, after what is left of them there was read, and deleted if it is damaged.

        That may be what a run that died has left: a copy takes an object of the right length for the right one.
        """
        lacking = [Damage(store, object_, ObjectCheck((), 0, 0)) for object_ in objects]
        self._take_away(store, lacking)
        problem = self._fill(store)
        left = self._still_damaged(store, lacking, said="it was missing, and was fetched")
        if problem:
            for damage in left:
                self._fail(damage, f"store {store} lacks it: {problem}")
        elif left:
            self._repair(store, left)

    # ---- one store ------------------------------------------------------------------------------

    def _repair(self, store: StoreId, damages: Sequence[Damage]) -> None:
        left = list(damages)
        for _ in range(ATTEMPTS):
            try:
                self._report(store, left)
            except NotEnoughReplicas as error:
                if len(left) > 1:  # the others may be harmless
                    for damage in left:
                        self._repair(store, [damage])
                else:
                    self._postpone(left[0], f"{left[0]}; its repair waits: {error}")
                return
            self._take_away(store, left)
            problem = self._fill(store)
            left = self._still_damaged(store, left)
            if not left:
                return
        for damage in left:
            self._fail(damage, f"{damage}; it could not be fetched again: {problem or 'it was damaged again'}")

    def _report(self, store: StoreId, damages: Sequence[Damage]) -> None:
        """Take the damaged objects out of what the chain says that the store holds."""
        with self._frame.connection.follower.current() as state:
            registration = check_registered(self._frame, state, store)
            held = _held_ends(state, store, damages)
            incarnation = state.stores[store].incarnation
        if not held:
            return
        self._frame.commit(ReportLoss(store, registration, incarnation, held, harmless=True))
        with self._frame.connection.follower.current() as state:
            self.registrations[store] = state.stores[store].registration

    def _take_away(self, store: StoreId, damages: Sequence[Damage]) -> None:
        """Delete by its exact name what is damaged there, if the chain does not count on it now.

        If somebody filled the store meanwhile, the chain does: then the object is read once more, and counts.
        """
        with self._frame.connection.follower.current() as state:
            stores, incarnation = self._frame.connection.stores(state), state.stores[store].incarnation
        target = stores.get(store)
        stores.check_owner(store)
        check_incarnation(target, incarnation)
        objects = {damage.number: damage.object for damage in damages}
        for round_ in chunks(list(packed(objects.values())), self._frame.tasks.tasks_at_once):
            for object_, outcome in checked(self._frame, store, round_, mend=False):
                damaged = _damaged_parts(outcome.check)
                if not damaged:
                    continue
                with self._frame.connection.follower.current() as state:
                    if held_slices(state, store, [object_.named.number]):
                        continue
                if Part.OBJECT in damaged:
                    target.delete(object_.key)
                if Part.INDEX in damaged:
                    target.delete(index_key(object_.key))

    def _fill(self, store: StoreId) -> str:
        """Fill the store. Returns what failed."""
        filling = ReplicationJob([store])
        filling.plan(self._frame)
        rows = filling.execute(self._frame)
        return "; ".join(
            dict.fromkeys(message for row in rows if row.outcome is Outcome.FAILED for message in row.messages)
        )

    def _still_damaged(
        self, store: StoreId, damages: Sequence[Damage], said: str = "it was damaged, and was fetched again"
    ) -> list[Damage]:
        """Read the objects again. Returns those that the store lacks or has damaged, and notes the others."""
        objects = {damage.number: damage.object for damage in damages}
        left: list[Damage] = []
        for round_ in chunks(list(packed(objects.values())), self._frame.tasks.tasks_at_once):
            outcomes = checked(self._frame, store, round_, mend=True)
            with self._frame.connection.follower.current() as state:
                held = held_slices(state, store, [object_.named.number for object_, _ in outcomes])
            for object_, outcome in outcomes:
                is_named = bool(state.objects.present([object_.named.number]))
                if outcome.is_whole and object_.named.number in held:
                    self.repaired.setdefault(store, set()).add(object_.named.number)
                    self._note(store, partitions_of(object_.slices), None, f"{object_.key}: {said}")
                elif outcome.check is None:
                    raise StoreUnavailable(outcome.error)
                elif is_named:
                    left.append(Damage(store, object_, outcome.check))
        return left

    # ---- notes ----------------------------------------------------------------------------------

    def _fail(self, damage: Damage, message: str) -> None:
        keys = partitions_of(damage.object.slices)
        self._note(damage.store, keys, Outcome.FAILED, f"{damage.object.key}: {message}")

    def _postpone(self, damage: Damage, message: str) -> None:
        keys = partitions_of(damage.object.slices)
        self._note(damage.store, keys, Outcome.POSTPONED, f"{damage.object.key}: {message}")


def _damaged_parts(check: ObjectCheck | None) -> set[Part]:
    """What is there and not whole. What was missing is left alone: by now an agent may have copied it."""
    findings = () if check is None else check.findings
    return {finding.part for finding in findings if finding.problem is not Problem.MISSING}


def _holders(state: ClusterState, damages: Iterable[Damage]) -> set[StoreId]:
    """The stores that hold a slice of the damaged object, according to the chain. A fenced one can't be asked."""
    registered = state.registrations()
    holders: set[StoreId] = set()
    for damage in damages:
        for slices in held_slices(state, damage.store, [damage.number]).values():
            for slice_ in slices:
                holders.update(store for store in holders_of(state, slice_) if store in registered)
    return holders


def _held_ends(state: ClusterState, store: StoreId, damages: Sequence[Damage]) -> tuple[HeldEnd, ...]:
    """Where the log of each damaged replica ends now: before the first slice in a damaged object."""
    ends: dict[TopicPartition, Offset] = {}
    for slices in held_slices(state, store, [damage.number for damage in damages]).values():
        for slice_ in slices:
            key = TopicPartition(slice_.topic_id, slice_.partition)
            ends[key] = min(ends.get(key, slice_.start), slice_.start)
    return tuple(HeldEnd(key.topic_id, key.partition, end) for key, end in sorted(ends.items()))
