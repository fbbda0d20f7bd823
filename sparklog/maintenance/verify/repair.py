"""Repair damaged and missing copies: look -> `next_step` -> act -> look again, until no case has a step left.

The order within a fetch matters: ReportLoss (in the chain, the store's log ends before the damage) -> look again at the
whole copy -> delete the damaged object and its index by name -> copy the whole one -> fill the replica like any that
lags (`replication_job.py`), but not with objects of which no whole copy was seen -> look.

No copy is deleted while the chain says that the store has it, so no election and no acknowledgement relies on a missing
copy. A run that dies after its report leaves the store with a new registration, and therefore without a recovery point:
the next run reads everything, finds the remaining work, and does it. A loss is reported only if it is harmless: other
replicas have everything that the store has. Otherwise the repair is left to a later run. So stores are repaired one
after the other, and those that lack something are filled first. Readers ask the next holder meanwhile.

While a damaged object is still on the store, an agent does not take it for the copy that the replica lacks.

Two runs may repair the same object. One run may delete a copy that the other has just fetched, because stores have no
conditional deletion. Each run reads the object again at the end, and fetches it again if it is missing. The copy stays
missing only if a run is delayed between its last look at the chain and the deletion, the other run reports its copy in
that time, and the first run is killed right after the deletion. Even then, other stores have the object, and verify,
recovery with `--full`, or the store's agent will find that the copy is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sparklog.core.commands import HeldEnd, ReportLoss, ReportReplicas
from sparklog.core.errors import NotEnoughReplicas, SparklogError, StaleBrokerEpoch
from sparklog.core.lookup import registered_store
from sparklog.core.maintenance.objects_to_verify import ObjectToVerify
from sparklog.core.placement.held_slices import held_slices, partitions_of, slices_by_object
from sparklog.core.placement.replica_fetch import ObjectToFetch, replica_reports, unfinished_replicas
from sparklog.core.state import ClusterState
from sparklog.core.types import ObjectNumber, Offset, StoreId, TopicPartition
from sparklog.log.check.object_check import StoredPart
from sparklog.log.check.sighting import Sighting, key_of
from sparklog.log.incarnation import check_incarnation
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.replication_job import ReplicationJob, check_registered, fetched
from sparklog.maintenance.verify.look_tasks import look, rounds
from sparklog.maintenance.verify.next_step import Case, Close, Look, Refetch, Salvage, Step, next_step, standing_of
from sparklog.maintenance.verify.salvage import Note, salvage
from sparklog.storage.keys import index_key


@dataclass
class StoreInRun:
    """A store that the run is to repair. `whole`: the objects that were read there and are whole.

    `registration`: the store's at the time of the plan, or the one that it got when this run reported a loss.
    """

    registration: int
    whole: set[ObjectNumber] = field(default_factory=set)


class Repair:
    """Repairs damaged and missing copies in one run. Call `run` once.

    `stores`: the stores that the run is to repair. Each object that is whole there in the end is added to their
    `StoreInRun.whole`. `note` is called with each outcome.
    """

    def __init__(self, frame: JobFrame, stores: Mapping[StoreId, StoreInRun], note: Note, *, accept_loss: bool) -> None:
        self._frame = frame
        self._stores = stores
        self._note = note
        self._accept_loss = accept_loss
        self._cases: dict[ObjectNumber, Case] = {}
        self._whole_nowhere: set[ObjectNumber] = set()  # of all cases of the run, also those that are done

    def run(self, cases: Mapping[ObjectNumber, Case]) -> None:
        """Repair every copy that can be repaired, and close the others."""
        self._cases = dict(cases)
        while steps := self._next_steps():
            fetches = {number: step for number, step in steps.items() if isinstance(step, Refetch)}
            if len(fetches) < len(steps):
                self._act(steps)
                continue
            damaged = {step.store for step in fetches.values() if step.counted}
            store, counted = min(
                ((step.store, step.counted) for step in fetches.values()),
                key=lambda group: (group[0] in damaged, group[0], not group[1]),
            )
            group = {n: step for n, step in fetches.items() if (step.store, step.counted) == (store, counted)}
            self._refetch(store, group)

    def _next_steps(self) -> dict[ObjectNumber, Step]:
        state = self._frame.connection.newest_state()
        slices_of = slices_by_object(state, self._cases)
        steps: dict[ObjectNumber, Step] = {}
        for number, case in self._cases.items():
            slices = tuple(slices_of[number])
            object_ = msgspec.structs.replace(case.object, slices=slices)
            self._cases[number] = msgspec.structs.replace(case, object=object_)
            step = next_step(standing_of(state, slices), self._cases[number], self._stores) if slices else None
            if step is not None:
                steps[number] = step
        self._note_whole_nowhere()
        self._cases = {number: self._cases[number] for number in steps}
        return steps

    def _note_whole_nowhere(self) -> None:
        """Note the objects that `_fill` must not copy. A case that is done keeps its last word."""
        for number, case in self._cases.items():
            (self._whole_nowhere.add if case.is_whole_nowhere else self._whole_nowhere.discard)(number)

    def _act(self, steps: Mapping[ObjectNumber, Step]) -> None:
        looks: dict[StoreId, list[ObjectNumber]] = {}
        for number, step in steps.items():
            match step:
                case Look():
                    for store in step.stores:
                        looks.setdefault(store, []).append(number)
                case Salvage():
                    case = self._cases[number]
                    salvage(
                        self._frame, case.object, step.sightings, step.others, self._note, accept_loss=self._accept_loss
                    )
                    closed = case.closed.union(sighting.store for sighting in step.sightings)
                    self._cases[number] = msgspec.structs.replace(case, closed=closed)
                case Close():
                    self._close(number, step)
                case Refetch():
                    pass  # when nothing is left to be seen or closed
        for store, numbers in looks.items():
            self._look(store, numbers)

    def _close(self, number: ObjectNumber, close: Close) -> None:
        case = self._cases[number]
        self._cases[number] = msgspec.structs.replace(case, closed=case.closed | {close.store})
        if close.outcome is None and close.store in self._stores:
            self._stores[close.store].whole.add(number)
        self._note(close.store, partitions_of(case.object.slices), close.outcome, close.message)

    def _look(self, store: StoreId, numbers: Collection[ObjectNumber]) -> None:
        """Look at the copies on a store."""
        for round_ in rounds(self._frame, [self._on(store, number) for number in numbers]):
            try:
                seen = [sighting for _, (sighting,) in look(self._frame, round_, repair=True)]
            except SparklogError as error:
                seen = [Sighting(store, None, str(error)) for pack in round_ for _ in pack]
            for object_, sighting in zip((object_ for pack in round_ for object_ in pack), seen, strict=True):
                self._add(object_.named.number, sighting)

    def _look_again(self, steps: Mapping[ObjectNumber, Refetch]) -> None:
        """Look again at the copies from which others are fetched."""
        by_source: dict[StoreId, list[ObjectNumber]] = {}
        for number, step in steps.items():
            if step.source is not None:
                by_source.setdefault(step.source, []).append(number)
        for source, numbers in by_source.items():
            self._look(source, numbers)

    def _has_whole_source(self, number: ObjectNumber, step: Refetch) -> bool:
        newest = None if step.source is None else self._cases[number].of(step.source).newest
        return newest is not None and newest.object_is_whole

    def _add(self, number: ObjectNumber, sighting: Sighting) -> None:
        case = self._cases[number]
        self._cases[number] = msgspec.structs.replace(case, sightings=(*case.sightings, sighting))

    # ---- one store ------------------------------------------------------------------------------

    def _refetch(self, store: StoreId, steps: Mapping[ObjectNumber, Refetch]) -> None:
        """Fetch copies of a store again, and look at them. After an error, they count as looked at in vain."""
        try:
            registration = self._report_loss(store, [number for number, step in steps.items() if step.counted])
            self._take_away(store, {n: step for n, step in steps.items() if step.source not in (None, store)})
            sources = {number: step for number, step in steps.items() if self._has_whole_source(number, step)}
            copied, failures = self._copy(store, sources)
            self._look_again({n: step for n, step in sources.items() if n not in copied and step.source != store})
            failures += self._fill(store)
            self._report_found(store, registration, [number for number in copied if steps[number].unheld])
        except NotEnoughReplicas as error:
            for number, step in steps.items():
                if len(steps) > 1:  # the others may be harmless
                    self._refetch(store, {number: step})
                    continue
                case = self._cases[number]
                text = f"{key_of(case.object)}: {case.of(store).read}; its repair waits: {error}"
                self._close(number, Close(store, WorkOutcome.POSTPONED, text))
        except SparklogError as error:
            self._note_fetch(store, steps)
            for number in steps:
                self._add(number, Sighting(store, None, str(error)))
        else:
            self._note_fetch(store, steps, "; ".join(dict.fromkeys(failures)))
            self._look(store, steps)

    def _note_fetch(self, store: StoreId, numbers: Collection[ObjectNumber], unfilled: str = "") -> None:
        for number in numbers:
            case = self._cases[number]
            self._cases[number] = msgspec.structs.replace(
                case, fetched=(*case.fetched, store), unfilled={**case.unfilled, store: unfilled}
            )

    def _report_loss(self, store: StoreId, numbers: Sequence[ObjectNumber]) -> int:
        """Report objects as lost. In the chain, the logs of the store's replicas then end before them.

        Returns the store's registration after that. What was read under another one, which is not from this report,
        does not count as whole any more.
        """
        state = self._frame.connection.newest_state()
        registration = check_registered(self._frame, state, store)
        held = _held_ends(state, store, numbers)
        if not held:
            return registration
        incarnation = state.stores[store].incarnation
        self._frame.commit(ReportLoss(store, registration, incarnation, held, harmless=True))
        after = registered_store(self._frame.connection.newest_state(), store).registration
        in_run = self._stores.get(store)
        if in_run is not None:
            # Registrations only rise: the next one, if the store has it, is from this report.
            if in_run.registration != registration or after != state.next_registration:
                in_run.whole.clear()
            in_run.registration = after
        return after

    def _take_away(self, store: StoreId, steps: Mapping[ObjectNumber, Refetch]) -> None:
        """Delete damaged objects by their exact names, unless the chain says that the store has them.

        Their sources are looked at again first: a copy stays if its source is not whole any more. If another process
        has filled the store meanwhile, the chain says that the store has the new copies, so they stay. A missing part
        is left alone, because an agent may have copied it by now.
        """
        state = self._frame.connection.newest_state()
        stores, incarnation = self._frame.connection.stores(state), registered_store(state, store).incarnation
        target = stores.get(store)
        stores.check_owner(store)
        check_incarnation(target, incarnation)
        for round_ in rounds(self._frame, [self._on(store, number) for number in steps]):
            seen = [pair for pair in look(self._frame, round_, repair=True) if pair[1][0].damaged_parts]
            self._look_again({object_.named.number: steps[object_.named.number] for object_, _ in seen})
            for object_, (sighting,) in seen:
                if not self._has_whole_source(object_.named.number, steps[object_.named.number]):
                    continue
                state = self._frame.connection.newest_state()
                if held_slices(state, store, [object_.named.number]):
                    continue
                if StoredPart.OBJECT in sighting.damaged_parts:
                    target.delete(key_of(object_))
                if StoredPart.INDEX in sighting.damaged_parts:
                    target.delete(index_key(key_of(object_)))

    def _copy(self, store: StoreId, steps: Mapping[ObjectNumber, Refetch]) -> tuple[list[ObjectNumber], list[str]]:
        """Copy each object from its source. Return those that the store has now, and the failures of the others.

        `_fill` alone could copy a damaged object: it copies from the leader first, and compares only lengths. If the
        source is the store itself, the object is only made durable. `_fill` also fetches what could not be copied.
        """
        wanted = []
        for number, step in steps.items():
            object_ = self._cases[number].object
            if step.source is not None:
                key = partitions_of(object_.slices)[0]
                wanted.append(ObjectToFetch(number, key, object_.topic, object_.named.object, (step.source,)))
        copied: list[ObjectNumber] = []
        failures: list[str] = []
        for round_ in fetched(self._frame, self._frame.connection.newest_state(), store, wanted):
            for order, outcome in round_:
                pairs = list(zip(order.objects, outcome.errors, strict=True))
                copied += [object_.number for object_, error in pairs if not error]
                failures += filter(None, outcome.errors)
        return copied, failures

    def _fill(self, store: StoreId) -> list[str]:
        """Copy to the store what its replicas lack, except objects that are whole nowhere. Return the failures."""
        self._note_whole_nowhere()
        filling = ReplicationJob([store], but=self._whole_nowhere)
        filling.plan(self._frame)
        rows = filling.execute(self._frame)
        return [message for row in rows if row.outcome is WorkOutcome.FAILED for message in row.messages]

    def _report_found(self, store: StoreId, before: int, numbers: Collection[ObjectNumber]) -> None:
        """Report to the chain that the store has these objects, of which it says that no store has them.

        A partition without a leader may then elect this store. `before`: the store's registration before the objects
        were copied. Raises StaleBrokerEpoch if it has another one by now.
        """
        if not numbers:
            return
        state = self._frame.connection.newest_state()
        registration = check_registered(self._frame, state, store)
        if registration != before:
            raise StaleBrokerEpoch(f"store {store} was registered again as {registration} while it was filled")
        reports = replica_reports(state, store, unfinished_replicas(state, store), numbers)
        if reports:
            self._frame.commit(ReportReplicas(store, registration, reports))

    def _on(self, store: StoreId, number: ObjectNumber) -> ObjectToVerify:
        return msgspec.structs.replace(self._cases[number].object, stores=(store,))


def _held_ends(state: ClusterState, store: StoreId, numbers: Sequence[ObjectNumber]) -> tuple[HeldEnd, ...]:
    """Return the new log end of each replica with one of these objects: the start of its first slice there."""
    ends: dict[TopicPartition, Offset] = {}
    for slices in held_slices(state, store, numbers).values():
        for slice_ in slices:
            key = TopicPartition(slice_.topic_id, slice_.partition)
            ends[key] = min(ends.get(key, slice_.start), slice_.start)
    return tuple(HeldEnd(key.topic_id, key.partition, end) for key, end in sorted(ends.items()))
