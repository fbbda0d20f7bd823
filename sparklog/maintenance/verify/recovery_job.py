"""The recovery job: read the objects above each store's recovery point, and repair damaged ones.

    plan: a row per replica -> print -> (--dry-run stops here) -> read and check in tasks, rewrite damaged indexes
    -> damaged objects: end the store's log before them in the chain, then delete, then fetch them again (`repair.py`)
    -> objects that no store has whole: build from the good batches (`salvage.py`), or report by name
    -> elect leaders of partitions that had none, if a replica has everything now -> recovery points -> checkpoints

The recovery point rises only over objects that were read and are whole. Readers never get damaged bytes meanwhile: they
verify each batch, and ask the next holder if it is damaged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Unpack

import msgspec

from sparklog.core.commands import Election, ElectLeaders, MoveRecoveryPoint
from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError
from sparklog.core.lookup import registered_store
from sparklog.core.maintenance.recovery_point import ReplicaToCheck, recovery_point_after, replicas_to_check
from sparklog.core.placement.held_slices import held_slices, partitions_of, slices_by_object
from sparklog.core.types import EntryNumber, NamedObject, ObjectNumber, StoreId, TopicPartition
from sparklog.log.checkpoint_files import CheckpointFiles
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES
from sparklog.maintenance.job_frame import JobFrame, JobOptions, chunks, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome, ended
from sparklog.maintenance.replication_job import check_registered
from sparklog.maintenance.verify.damaged_object import Damage
from sparklog.maintenance.verify.recovery_tasks import ObjectToCheck, checked, packed
from sparklog.maintenance.verify.repair import Repair

MOST_MESSAGES: Final = 20  # of one replica
NAMED_AT_ONCE: Final = 1_000  # objects held as Python objects at a time
_REQUESTS_PER_OBJECT: Final = 2  # its index, and its length

_Replica = tuple[StoreId, TopicPartition]


def run_recovery(
    cluster_url: str,
    *,
    stores: Collection[str] = (),
    full: bool = False,
    accept_loss: bool = False,
    **options: Unpack[JobOptions],
) -> JobReport:
    """Check the objects above the recovery points, and repair damaged ones. With `full`, check all objects.

    With `stores`, only objects on these stores are checked. With `accept_loss`, records that no store can provide any
    more become a gap in the log: reading there raises DataLoss. Raises BrokerIdNotRegistered, UnknownTopicOrPartition,
    ClusterNotFound, and any error of reading the chain.
    """
    return run_job(RecoveryJob(stores, full=full, accept_loss=accept_loss), cluster_url, **options)


class RecoveryJob:
    """Plans and does the work of `run_recovery`, as a `job_frame.Job`."""

    name = "recovery"
    unit = "objects"

    def __init__(self, stores: Collection[str], *, full: bool, accept_loss: bool) -> None:
        self.notes: list[str] = []
        self._stores = [StoreId(store) for store in stores]
        self._full = full
        self._accept_loss = accept_loss
        self._rows: dict[_Replica, PartitionResult] = {}
        self._due: dict[StoreId, list[ReplicaToCheck]] = {}
        self._registrations: dict[StoreId, int] = {}
        self._n = EntryNumber(0)  # of the plan
        self._whole: dict[StoreId, set[ObjectNumber]] = {}

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return a row for each replica with objects to read or fetch, store by store, with the cost."""
        state = frame.connection.newest_state()
        self._n = EntryNumber(state.n)
        for store in self._stores or sorted(state.stores):
            registered = registered_store(state, store)
            if registered.fenced:
                self.notes.append(f"store {store} is fenced: it is checked when it is back")
                continue
            self._registrations[store] = registered.registration
            due = list(replicas_to_check(state, store, frame.chosen_topics(state), everything=self._full))
            self._due[store], self._whole[store] = due, set()
            if not due:
                self.notes.append(
                    f"store {store}: every object that it holds is below its recovery point "
                    f"{registered.recovery_point}, nothing needs to be read (--full reads all)"
                )
            for replica in due:
                self._rows[store, replica.topic_partition] = _planned(store, replica)
        return list(self._rows.values())

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Check store by store, repair damaged objects, and raise the recovery points."""
        damages: list[Damage] = []
        for store in self._due:
            try:
                damages += self._checked(frame, store)
            except SparklogError as error:
                self._fail(store, str(error))
        repair = Repair(frame, self._note, accept_loss=self._accept_loss)
        repair.run(damages)
        for store, due in self._due.items():
            try:
                self._fill(frame, store, due, repair)
            except SparklogError as error:
                self._fail(store, f"it could not be filled: {error}")
        self._elect(frame)
        for store in self._due:
            self._whole[store] |= repair.repaired.get(store, set())
            self._raise_point(frame, store, repair.registrations)
        state = frame.connection.newest_state()
        stores = frame.connection.stores(state)
        for store, reason in CheckpointFiles().write(state, stores).items():
            self._note(store, [], None, f"its checkpoints were not written: {reason}")
        return ended(self._rows.values())

    # ---- reading --------------------------------------------------------------------------------

    def _checked(self, frame: JobFrame, store: StoreId) -> list[Damage]:
        """Read the objects that are due on a store. Read damaged ones again; return those that are still damaged."""
        state = frame.connection.newest_state()
        check_registered(frame, state, store)
        wanted = sum(len(replica.numbers) for replica in self._due[store])
        damaged: list[ObjectNumber] = []
        read = 0
        for replica in self._due[store]:
            packs = packed(self._objects(frame, replica))
            while round_ := list(islice(packs, frame.tasks.tasks_at_once)):
                for object_, outcome in checked(frame, store, round_, mend=True):
                    read += 1
                    self._count(store, [replica.topic_partition], object_)
                    if outcome.is_whole:
                        self._whole[store].add(object_.named.number)
                        if outcome.mended:
                            message = f"{object_.key}: its index was damaged, and was restored"
                            self._note(store, [replica.topic_partition], None, message)
                    elif outcome.check is None:
                        self._note(
                            store, [replica.topic_partition], WorkOutcome.FAILED, f"{object_.key}: {outcome.error}"
                        )
                    else:
                        damaged.append(object_.named.number)
                frame.output.progress(f"objects checked on store {store}", read, wanted)
        return list(self._confirmed(frame, store, damaged))

    def _objects(self, frame: JobFrame, replica: ReplicaToCheck) -> Iterator[ObjectToCheck]:
        """Yield the objects of a replica that are due, except those that the chain has dropped since the plan."""
        for low in range(0, len(replica.numbers), NAMED_AT_ONCE):
            numbers = map(ObjectNumber, replica.numbers[low : low + NAMED_AT_ONCE].tolist())
            state = frame.connection.newest_state()
            named = [(number, state.objects.get(number)) for number in numbers]
            for number, object_ in named:
                if object_ is not None:
                    yield ObjectToCheck(NamedObject(number, object_), replica.topic)

    def _confirmed(self, frame: JobFrame, store: StoreId, damaged: Sequence[ObjectNumber]) -> Iterator[Damage]:
        """Read damaged objects again. Yield those that are damaged again, and that the store should still hold.

        The first read may have failed by chance, or retention may have deleted the object meanwhile.
        """
        objects = {}
        state = frame.connection.newest_state()
        for number, slices in held_slices(state, store, damaged).items():
            named = state.objects.get(number)
            if named is not None:
                topic = state.topics[named.topic_id].name
                objects[number] = ObjectToCheck(NamedObject(number, named), topic, tuple(slices))
        for round_ in chunks(list(packed(objects.values())), frame.tasks.tasks_at_once):
            for object_, outcome in checked(frame, store, round_, mend=True):
                if outcome.is_whole:
                    self._whole[store].add(object_.named.number)
                elif outcome.check is None or outcome.check.object_is_whole:
                    keys = partitions_of(object_.slices)
                    problem = outcome.error or "; ".join(map(str, outcome.check.findings if outcome.check else ()))
                    self._note(store, keys, WorkOutcome.FAILED, f"{object_.key}: {problem}")
                else:
                    yield Damage(store, object_, outcome.check)

    def _fill(self, frame: JobFrame, store: StoreId, due: Sequence[ReplicaToCheck], repair: Repair) -> None:
        """Fetch the objects that the store lacked at the time of the plan, unless it has got them since."""
        objects = []
        state = frame.connection.newest_state()
        lacking = [ObjectNumber(number) for replica in due for number in replica.lacking.tolist()]
        held = held_slices(state, store, lacking)
        for number, slices in slices_by_object(state, lacking).items():
            named = state.objects.get(number)
            if named is not None and slices and number not in held:
                topic = state.topics[named.topic_id].name
                objects.append(ObjectToCheck(NamedObject(number, named), topic, tuple(slices)))
        if objects:
            repair.fill(store, objects)
            for object_ in objects:
                if object_.named.number in repair.repaired.get(store, ()):
                    self._count(store, partitions_of(object_.slices), object_)

    def _elect(self, frame: JobFrame) -> None:
        """Elect a leader for each partition that has none, if a replica has every committed record.

        Usually a report that an object was copied leads to the election. But after records were given up, by this run
        or by an earlier one that was killed, there may be nothing left to copy, so no report comes.
        """
        state = frame.connection.newest_state()
        elections = tuple(
            Election(partition.topic_id, partition.partition)
            for topic in frame.chosen_topics(state)
            for partition in state.partitions_of(topic)
            if partition.replication.leader is None
            and any(state.stores[store].reachable for store in partition.replication.whole)
        )
        if elections:
            try:
                frame.commit(ElectLeaders(elections))
            except SparklogError as error:
                self.notes.append(f"no leader could be elected: {error}")

    # ---- the recovery point ---------------------------------------------------------------------

    def _raise_point(self, frame: JobFrame, store: StoreId, registrations: Mapping[StoreId, int]) -> None:
        """Raise the store's recovery point past the objects that were read and are whole.

        Does nothing if the store is fenced, or if another process has registered it again. `registrations`: for each
        store that got a new registration when this run reported a loss, that registration.
        """
        registration = registrations.get(store, self._registrations[store])
        state = frame.connection.newest_state()
        registered = state.stores.get(store)
        if registered is None or registered.registration != registration or registered.fenced:
            return
        to = recovery_point_after(state, store, self._whole[store])
        if to <= registered.recovery_point:
            return
        try:
            check_registered(frame, state, store)
            frame.commit(MoveRecoveryPoint(store, registration, to, self._n))
        except SparklogError as error:
            self._fail(store, f"the recovery point stays at {registered.recovery_point}: {error}")

    # ---- rows -----------------------------------------------------------------------------------

    def _count(self, store: StoreId, keys: Sequence[TopicPartition], object_: ObjectToCheck) -> None:
        key = next((key for key in keys if (store, key) in self._rows), None)
        if key is None:
            return
        row = self._rows[store, key]
        done = Work(1, 0, object_.size_bytes, object_.requests)
        self._rows[store, key] = msgspec.structs.replace(row, done=row.done + done)

    def _note(
        self, store: StoreId, keys: Collection[TopicPartition], outcome: WorkOutcome | None, message: str
    ) -> None:
        """Add a message to the rows of these partitions on the store, and set their outcome (None: leave it).

        A row that has failed stays failed. If none of the partitions has a row, the store's first row is used.
        """
        rows = [(store, key) for key in keys if (store, key) in self._rows]
        for replica in rows or [replica for replica in self._rows if replica[0] == store][:1]:
            row = self._rows[replica].noted(outcome, message)
            self._rows[replica] = msgspec.structs.replace(row, messages=row.messages[:MOST_MESSAGES])

    def _fail(self, store: StoreId, message: str) -> None:
        self._note(store, [key for other, key in self._rows if other == store], WorkOutcome.FAILED, message)


def _planned(store: StoreId, replica: ReplicaToCheck) -> PartitionResult:
    key, objects = replica.topic_partition, len(replica.numbers) + len(replica.lacking)
    requests = _REQUESTS_PER_OBJECT * objects + max(objects, -(-replica.size_bytes // RANGED_READ_BYTES))
    work = Work(objects, replica.records, replica.size_bytes, requests)
    reasons = [f"from object number {replica.numbers[0]} on"] if len(replica.numbers) else []
    reasons += [f"it lacks {counted(len(replica.lacking), 'object')}"] if len(replica.lacking) else []
    place = f"{replica.topic}-{key.partition} on {store}"
    return PartitionResult(place, replica.topic, key.partition, ", ".join(reasons), work)
