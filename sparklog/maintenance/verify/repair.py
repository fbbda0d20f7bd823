"""Repair damaged objects of a store from other stores that have them whole.

    read every holder; one has the object whole -> ReportLoss: in the chain, the store's log ends before the damage
    -> delete the damaged object and its index by name -> copy the whole one -> fill the replica like any that lags
    (`replication_job.py`) -> read it

The order matters. No copy is deleted while the chain says that the store has it, so no election and no acknowledgement
relies on a missing copy. A run that dies after its report leaves the store with a new registration, and therefore
without a recovery point: the next run reads everything, finds the remaining work, and does it. A loss is reported only
if it is harmless: other replicas have everything that the store has. Otherwise the repair is left to a later run.
Readers ask the next holder meanwhile.

While a damaged object is still on the store, an agent does not take it for the copy that the replica lacks. An object
that an agent copies meanwhile may be damaged at its source, because a copy made by the stores themselves compares only
lengths. So the job reads the objects again after the store was filled, and starts over if necessary.

Two runs may repair the same object. One run may delete a copy that the other has just fetched, because stores have no
conditional deletion. Each run reads the object again at the end, and fetches it again if it is missing. The copy stays
missing only if a run is delayed between its last look at the chain and the deletion, the other run reports its copy in
that time, and the first run is killed right after the deletion. Even then, other stores have the object, and verify,
recovery with `--full`, or the store's agent will find that the copy is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from sparklog.core.commands import HeldEnd, ReportLoss, ReportReplicas
from sparklog.core.errors import NotEnoughReplicas, SparklogError, StoreUnavailable
from sparklog.core.lookup import registered_store
from sparklog.core.placement.held_slices import held_slices, holders_of, partitions_of, slices_by_object
from sparklog.core.placement.replica_fetch import ObjectToFetch, replica_reports, unfinished_replicas
from sparklog.core.state import ClusterState
from sparklog.core.types import ObjectNumber, Offset, Slice, StoreId, TopicPartition
from sparklog.log.check.object_check import ObjectCheck, Problem, StoredPart
from sparklog.log.incarnation import check_incarnation
from sparklog.maintenance.job_frame import JobFrame, chunks
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.replication_job import (
    FetchOrder,
    ReplicationJob,
    check_registered,
    fetch_objects,
    packed_to_fetch,
)
from sparklog.maintenance.verify.damaged_object import Damage, Note
from sparklog.maintenance.verify.recovery_tasks import CheckOutcome, ObjectToCheck, checked, packed
from sparklog.maintenance.verify.salvage import salvage
from sparklog.storage.keys import index_key

ATTEMPTS: Final = 3


class Repair:
    """Repairs the damaged objects of one run. Calls the constructor's `note` with the outcome of each repair.

    Afterwards, two attributes are maps by store. `repaired` has the numbers of the objects that were fetched again and
    are whole. `registrations` has the registration that the store got when its loss was reported.
    """

    def __init__(self, frame: JobFrame, note: Note, *, accept_loss: bool) -> None:
        self.repaired: dict[StoreId, set[ObjectNumber]] = {}
        self.registrations: dict[StoreId, int] = {}
        self._frame = frame
        self._note = note
        self._accept_loss = accept_loss
        self._whole: dict[
            ObjectNumber, StoreId
        ] = {}  # objects that are damaged elsewhere, and a store with each of them whole
        self._left_overs: dict[ObjectNumber, dict[StoreId, Damage]] = {}  # copies that the chain does not count on

    def run(self, damages: Sequence[Damage]) -> None:
        """Repair every damaged object that another store has whole. Salvage the objects that no store has whole."""
        by_object: dict[ObjectNumber, list[Damage]] = {}
        for damage in damages:
            by_object.setdefault(damage.number, []).append(damage)
        left, silent = self._read_everywhere(by_object)
        repairable: dict[StoreId, list[Damage]] = {}
        for number, of_object in left.items():
            unread = silent.get(number, {})
            if number in self._whole:
                for damage in of_object:
                    repairable.setdefault(damage.store, []).append(damage)
                for damage in by_object[number]:
                    if damage.store in unread:
                        self._fail(damage, f"{damage}; it can't be repaired now: {unread[damage.store]}")
            elif unread:
                for damage in of_object or by_object[number]:
                    self._fail(damage, f"{damage}; it can't be repaired now: {'; '.join(unread.values())}")
            elif of_object:
                self._salvage(number, of_object)
        for store, of_store in repairable.items():
            try:
                self._repair(store, of_store)
            except SparklogError as error:
                for damage in of_store:
                    self._fail(damage, f"{damage}; the repair broke off: {error}")

    def _read_everywhere(
        self, by_object: Mapping[ObjectNumber, Sequence[Damage]]
    ) -> tuple[dict[ObjectNumber, list[Damage]], dict[ObjectNumber, dict[StoreId, str]]]:
        """Read each damaged object on every store that may have it. Keep in `_whole` a store that has it whole.

        Returns two maps. The first has the damages to repair, by object. The second has, by object and store, the
        reason why a store that may have the object whole could not be read.

        Since the first reading, another run may have repaired an object, an agent may have reported it as lost, or a
        person may have put it back. Such an object must not look lost. After the loss of an earlier object, the chain
        says that the replica's log ends before this one, but the store may still have the right bytes. While a
        partition has no leader, these may be the last right bytes. So fenced stores of its replicas are also in the
        second map.
        """
        left: dict[ObjectNumber, list[Damage]] = {}
        silent: dict[ObjectNumber, dict[StoreId, str]] = {}
        holders: dict[ObjectNumber, set[StoreId]] = {}
        asked: dict[ObjectNumber, set[StoreId]] = {}
        wanted: dict[StoreId, list[ObjectToCheck]] = {}
        state = self._frame.connection.newest_state()
        registered = state.registrations()
        for number, slices in slices_by_object(state, by_object).items():
            object_ = msgspec.structs.replace(by_object[number][0].object, slices=tuple(slices))
            holders[number] = {store for slice_ in slices for store in holders_of(state, slice_)}
            asked[number] = holders[number] | _replicas_of(state, _without_leader(state, slices))
            left[number] = [] if holders[number] or not slices else [*by_object[number]]
            for store in sorted(holders[number] | _replicas_of(state, slices)):
                if store in registered:
                    wanted.setdefault(store, []).append(object_)
                elif store in asked[number]:
                    silent.setdefault(number, {})[store] = f"store {store} is fenced, and may have it whole"
        for store, objects in wanted.items():
            for round_ in chunks(list(packed(objects)), self._frame.tasks.tasks_at_once):
                try:
                    outcomes = checked(self._frame, store, round_, mend=False)
                except SparklogError as error:
                    outcomes = [(object_, CheckOutcome(None, str(error))) for pack in round_ for object_ in pack]
                for object_, outcome in outcomes:
                    number = object_.named.number
                    if outcome.check is not None and outcome.check.object_is_whole:
                        self._whole.setdefault(number, store)
                    elif outcome.check is None:
                        silent.setdefault(number, {})[store] = f"store {store}: {outcome.error}"
                    elif store in holders[number]:
                        left[number].append(Damage(store, object_, outcome.check))
                    elif StoredPart.OBJECT in _damaged_parts(outcome.check):
                        self._left_overs.setdefault(number, {})[store] = Damage(store, object_, outcome.check)
        return left, silent

    def _salvage(self, number: ObjectNumber, of_holders: Sequence[Damage]) -> None:
        """Rebuild an object from its good batches, if no store has it whole.

        Records that are in no good batch are only reported, unless the run accepts their loss.
        """
        damages = self._left_overs.get(number, {}) | {damage.store: damage for damage in of_holders}
        salvage(self._frame, list(damages.values()), self._note, accept_loss=self._accept_loss)

    def fill(self, store: StoreId, objects: Sequence[ObjectToCheck]) -> None:
        """Fetch objects that the chain says the store lacks.

        The store may still have copies, from a run that died or from before a loss was reported. `copy_object` refuses
        to replace a damaged copy. So such a copy is deleted first if another store has the object whole; otherwise it
        stays, because it may be the last one.

        If the chain says that no store has an object, its partition stays without a leader. If this store has such an
        object whole after all, that is reported to the chain. If no store has it whole, it is salvaged. Raises
        StoreUnavailable if the store does not answer.
        """
        unheld = self._unheld(objects)
        own: set[ObjectNumber] = set()
        unclear: dict[ObjectNumber, list[Damage]] = {}
        for round_ in chunks(list(packed(objects)), self._frame.tasks.tasks_at_once):
            for object_, outcome in checked(self._frame, store, round_, mend=False):
                number, check = object_.named.number, outcome.check
                if check is None:
                    raise StoreUnavailable(outcome.error)
                if check.object_is_whole:
                    own |= {number} & unheld
                elif number in unheld or StoredPart.OBJECT in _damaged_parts(check):
                    unclear[number] = [Damage(store, object_, check)]
        left_anywhere, silent = self._read_everywhere(unclear)
        for number in sorted(unheld.intersection(unclear).difference(self._whole)):
            (damage,) = unclear.pop(number)
            objects = [object_ for object_ in objects if object_.named.number != number]
            if number in silent:
                self._fail(damage, f"{damage}; it can't be repaired now: {'; '.join(silent[number].values())}")
            elif left_anywhere.get(number):
                self._salvage(number, left_anywhere[number])
        elsewhere = [damage for number, (damage,) in unclear.items() if number in self._whole]
        self._take_away(store, elsewhere)
        self._whole |= dict.fromkeys(own, store)
        lacking = [Damage(store, object_, ObjectCheck((), 0, 0)) for object_ in objects]
        self._fetch(store, [*elsewhere, *(damage for damage in lacking if damage.number in own)])
        problem = self._fill(store)
        self._report_found(store, own | {damage.number for damage in elsewhere if damage.number in unheld})
        left = self._still_damaged(store, lacking, message="it was missing, and was fetched")
        repairable = []
        for damage in left:
            if damage.number in unclear and damage.number not in self._whole:
                unread = "; ".join(silent.get(damage.number, {}).values())
                self._fail(damage, f"{damage}; it is kept: {unread or 'no store has it whole: put it back'}")
            elif problem:
                self._fail(damage, f"store {store} lacks it: {problem}")
            else:
                repairable.append(damage)
        if repairable:
            self._repair(store, repairable)

    def _unheld(self, objects: Sequence[ObjectToCheck]) -> set[ObjectNumber]:
        """Return the numbers of the objects that have a slice which, by the chain, no store holds."""
        state = self._frame.connection.newest_state()
        slices_of = slices_by_object(state, [object_.named.number for object_ in objects])
        return {number for number, slices in slices_of.items() if not all(holders_of(state, s) for s in slices)}

    def _report_found(self, store: StoreId, numbers: Collection[ObjectNumber]) -> None:
        """Report to the chain that the store has these objects. So far, the chain says that the store lacks them.

        A partition without a leader may then elect this store.
        """
        if not numbers:
            return
        state = self._frame.connection.newest_state()
        registration = check_registered(self._frame, state, store)
        reports = replica_reports(state, store, unfinished_replicas(state, store), numbers)
        if reports:
            self._frame.commit(ReportReplicas(store, registration, reports))

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
            self._fetch(store, left)
            problem = self._fill(store)
            left = self._still_damaged(store, left)
            if not left:
                return
        for damage in left:
            self._fail(
                damage,
                f"{damage}; it could not be fetched again: {problem or 'it was damaged again: run recovery again'}",
            )

    def _report(self, store: StoreId, damages: Sequence[Damage]) -> None:
        """Report the damaged objects as lost. In the chain, the logs of the store's replicas then end before them."""
        state = self._frame.connection.newest_state()
        registration = check_registered(self._frame, state, store)
        held = _held_ends(state, store, damages)
        incarnation = state.stores[store].incarnation
        if not held:
            return
        self._frame.commit(ReportLoss(store, registration, incarnation, held, harmless=True))
        state = self._frame.connection.newest_state()
        self.registrations[store] = state.stores[store].registration

    def _take_away(self, store: StoreId, damages: Sequence[Damage]) -> None:
        """Delete damaged objects by their exact names, unless the chain says that the store has them.

        Call it only for objects that another store has whole. If another process has filled the store meanwhile, the
        chain says that the store has the new copies, so they stay.
        """
        state = self._frame.connection.newest_state()
        stores, incarnation = self._frame.connection.stores(state), registered_store(state, store).incarnation
        target = stores.get(store)
        stores.check_owner(store)
        check_incarnation(target, incarnation)
        objects = {damage.number: damage.object for damage in damages}
        for round_ in chunks(list(packed(objects.values())), self._frame.tasks.tasks_at_once):
            for object_, outcome in checked(self._frame, store, round_, mend=False):
                damaged = _damaged_parts(outcome.check)
                if not damaged:
                    continue
                state = self._frame.connection.newest_state()
                if held_slices(state, store, [object_.named.number]):
                    continue
                if StoredPart.OBJECT in damaged:
                    target.delete(object_.key)
                if StoredPart.INDEX in damaged:
                    target.delete(index_key(object_.key))

    def _fetch(self, store: StoreId, damages: Sequence[Damage]) -> None:
        """Copy each object from a store that has it whole. An object whose copy fails is left to `_fill`.

        `_fill` alone could copy a damaged object: it copies from the leader first, and compares only lengths. If this
        store itself has the object whole, the object is only made durable.
        """
        wanted = [
            ObjectToFetch(damage.number, key, damage.object.topic, damage.object.named.object, (source,))
            for damage in damages
            if (source := self._whole.get(damage.number)) is not None
            for key in partitions_of(damage.object.slices)[:1]
        ]
        state = self._frame.connection.newest_state()
        addresses = self._frame.connection.addresses(state)
        for round_ in chunks(list(packed_to_fetch(wanted)), self._frame.tasks.tasks_at_once):
            orders = [FetchOrder(addresses, store, state.stores[store].incarnation, pack) for pack in round_]
            self._frame.tasks.run(fetch_objects, [msgspec.msgpack.encode(order) for order in orders])

    def _fill(self, store: StoreId) -> str:
        """Copy to the store what its replicas lack. Return the failures as one text, "" if there are none."""
        filling = ReplicationJob([store])
        filling.plan(self._frame)
        rows = filling.execute(self._frame)
        return "; ".join(
            dict.fromkeys(message for row in rows if row.outcome is WorkOutcome.FAILED for message in row.messages)
        )

    def _still_damaged(
        self, store: StoreId, damages: Sequence[Damage], message: str = "it was damaged, and was fetched again"
    ) -> list[Damage]:
        """Read the objects again. Return those still missing or damaged; for the others, add `message` to the report.

        Objects that the chain no longer names are left out. Raises StoreUnavailable if the store does not answer.
        """
        objects = {damage.number: damage.object for damage in damages}
        left: list[Damage] = []
        for round_ in chunks(list(packed(objects.values())), self._frame.tasks.tasks_at_once):
            outcomes = checked(self._frame, store, round_, mend=True)
            state = self._frame.connection.newest_state()
            held = held_slices(state, store, [object_.named.number for object_, _ in outcomes])
            for object_, outcome in outcomes:
                is_named = bool(state.objects.present([object_.named.number]))
                if outcome.is_whole and object_.named.number in held:
                    self.repaired.setdefault(store, set()).add(object_.named.number)
                    self._note(store, partitions_of(object_.slices), None, f"{object_.key}: {message}")
                elif outcome.check is None:
                    raise StoreUnavailable(outcome.error)
                elif is_named:
                    left.append(Damage(store, object_, outcome.check))
        return left

    # ---- notes ----------------------------------------------------------------------------------

    def _fail(self, damage: Damage, message: str) -> None:
        keys = partitions_of(damage.object.slices)
        self._note(damage.store, keys, WorkOutcome.FAILED, f"{damage.object.key}: {message}")

    def _postpone(self, damage: Damage, message: str) -> None:
        keys = partitions_of(damage.object.slices)
        self._note(damage.store, keys, WorkOutcome.POSTPONED, f"{damage.object.key}: {message}")


def _damaged_parts(check: ObjectCheck | None) -> set[StoredPart]:
    """Return the parts (object, index) that exist but are not whole.

    A missing part is left out, because an agent may have copied it by now.
    """
    findings = () if check is None else check.findings
    return {finding.part for finding in findings if finding.problem is not Problem.MISSING}


def _replicas_of(state: ClusterState, slices: Sequence[Slice]) -> set[StoreId]:
    """The stores with replicas of the partitions of these slices."""
    return {store for key in partitions_of(slices) for store in state.partitions[key].replication.replicas}


def _without_leader(state: ClusterState, slices: Sequence[Slice]) -> list[Slice]:
    """Return the slices whose partitions have no leader."""
    keys = {key for key in partitions_of(slices) if state.partitions[key].replication.leader is None}
    return [slice_ for slice_ in slices if TopicPartition(slice_.topic_id, slice_.partition) in keys]


def _held_ends(state: ClusterState, store: StoreId, damages: Sequence[Damage]) -> tuple[HeldEnd, ...]:
    """Return the new log end of each replica with a damaged object: the start of its first damaged slice."""
    ends: dict[TopicPartition, Offset] = {}
    for slices in held_slices(state, store, [damage.number for damage in damages]).values():
        for slice_ in slices:
            key = TopicPartition(slice_.topic_id, slice_.partition)
            ends[key] = min(ends.get(key, slice_.start), slice_.start)
    return tuple(HeldEnd(key.topic_id, key.partition, end) for key, end in sorted(ends.items()))
