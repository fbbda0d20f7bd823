"""The recovery job: read the objects above each store's recovery point, and repair damaged ones.

    plan: a row per replica -> print -> (--dry-run stops here) -> look in tasks, restore damaged indexes
    -> copies that are damaged, or that the chain says a store lacks: `next_step.py` decides, `repair.py` acts
    -> objects that no store has whole: build from the good batches (`salvage.py`), or report by name
    -> elect leaders of partitions that had none, if a replica has everything now -> recovery points -> checkpoints

The recovery point rises only over objects that were read and are whole. Readers never get damaged bytes meanwhile: they
verify each batch, and ask the next holder if it is damaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Unpack

import msgspec
import numpy as np

from sparklog.core.commands import Election, ElectLeaders, MoveRecoveryPoint
from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError
from sparklog.core.lookup import registered_store
from sparklog.core.maintenance.objects_to_verify import ObjectToVerify
from sparklog.core.maintenance.recovery_point import Numbers, ReplicaToCheck, recovery_point_after, replicas_to_check
from sparklog.core.placement.held_slices import held_by_store
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import EntryNumber, NamedObject, ObjectNumber, StoreId, TopicId, TopicPartition
from sparklog.log.check.sighting import key_of
from sparklog.log.checkpoint_files import CheckpointFiles
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES
from sparklog.maintenance.job_frame import JobFrame, JobOptions, chunks, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome, ended
from sparklog.maintenance.replication_job import check_registered
from sparklog.maintenance.verify.look_tasks import REQUESTS_PER_OBJECT, look, rounds
from sparklog.maintenance.verify.next_step import Case
from sparklog.maintenance.verify.repair import Repair, StoreInRun

MOST_MESSAGES: Final = 20  # of one replica
NAMED_AT_ONCE: Final = 1_000  # objects held as Python objects at a time

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

    A recovery point is an object number for each store; Kafka's is an offset for each partition. With `stores`, only
    objects on these stores are checked. With `accept_loss`, records that no store can provide any more become a gap in
    the log: reading there raises DataLoss. Raises BrokerIdNotRegistered, UnknownTopicOrPartition, ClusterNotFound, and
    any error of reading the chain.
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
        self._lacking: list[tuple[StoreId, str, Numbers]] = []  # store, topic, objects
        self._topics: dict[TopicId, str] = {}
        self._left_out: Counter[_Replica] = Counter()  # messages
        self._in_run: dict[StoreId, StoreInRun] = {}
        self._n = EntryNumber(0)  # of the plan

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return a row for each replica with objects to read or fetch, store by store, with the cost."""
        state = frame.connection.newest_state()
        self._n = EntryNumber(state.n)
        self._topics = {topic.topic_id: topic.name for topic in frame.chosen_topics(state)}
        for store in self._stores or sorted(state.stores):
            registered = registered_store(state, store)
            if registered.fenced:
                self.notes.append(f"store {store} is fenced: it is checked when it is back")
                continue
            self._in_run[store] = StoreInRun(registered.registration)
            due = list(replicas_to_check(state, store, frame.chosen_topics(state), everything=self._full))
            self._due[store] = due
            self._lacking += _lacking(state, store, frame.chosen_topics(state))
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
        cases: dict[ObjectNumber, Case] = {}
        for store in self._due:
            try:
                self._read(frame, store, cases)
            except SparklogError as error:
                self._fail(store, str(error))
        for store, topic, numbers in self._lacking:
            for object_ in self._objects(frame, topic, numbers):
                case = cases.get(object_.named.number) or Case(object_)
                cases[object_.named.number] = msgspec.structs.replace(case, lacking=case.lacking | {store})
        Repair(frame, self._in_run, self._note, accept_loss=self._accept_loss).run(cases)
        for store, due in self._due.items():
            for replica in due:
                for number in self._in_run[store].whole.intersection(replica.lacking.tolist()):
                    self._count(store, replica, cases[number].object)
        self._elect(frame)
        for store in self._due:
            self._raise_point(frame, store)
        state = frame.connection.newest_state()
        stores = frame.connection.stores(state)
        for store, reason in CheckpointFiles().write(state, stores).items():
            self._note(store, [], None, f"its checkpoints were not written: {reason}")
        for place, left_out in self._left_out.items():
            self._rows[place] = self._rows[place].noted(None, f"and {counted(left_out, 'more message')}")
        return ended(self._rows.values())

    def _read(self, frame: JobFrame, store: StoreId, cases: dict[ObjectNumber, Case]) -> None:
        """Read the objects that are due on a store. Add a case for each that is damaged."""
        state = frame.connection.newest_state()
        check_registered(frame, state, store)
        wanted = sum(len(replica.numbers) for replica in self._due[store])
        read = 0
        for replica in self._due[store]:
            for round_ in rounds(frame, self._objects(frame, replica.topic, replica.numbers, store)):
                for object_, (sighting,) in look(frame, round_, repair=True):
                    read += 1
                    self._count(store, replica, object_)
                    number, keys = object_.named.number, [replica.topic_partition]
                    if sighting.check is None:
                        self._note(store, keys, WorkOutcome.FAILED, f"{key_of(object_)}: {sighting.error}")
                    elif sighting.is_whole:
                        self._in_run[store].whole.add(number)
                        if sighting.mended:
                            message = f"{key_of(object_)}: its index was damaged, and was restored"
                            self._note(store, keys, None, message)
                    else:
                        case = cases.get(number) or Case(object_)
                        cases[number] = msgspec.structs.replace(case, found=(*case.found, sighting))
                frame.output.progress(f"objects checked on store {store}", read, wanted)

    def _objects(self, frame: JobFrame, topic: str, numbers: Numbers, *stores: StoreId) -> Iterator[ObjectToVerify]:
        """Yield these objects, to be looked at on `stores`, except those that the chain has dropped since the plan."""
        for part in chunks(numbers, NAMED_AT_ONCE):
            state = frame.connection.newest_state()
            for number in map(ObjectNumber, part.tolist()):
                object_ = state.objects.get(number)
                if object_ is not None:
                    yield ObjectToVerify(NamedObject(number, object_), topic, (), stores, stores)

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

    def _raise_point(self, frame: JobFrame, store: StoreId) -> None:
        """Raise the store's recovery point past the objects that were read and are whole.

        Does nothing if the store is fenced, or if another process has registered it again.
        """
        registration = self._in_run[store].registration
        state = frame.connection.newest_state()
        registered = state.stores.get(store)
        if registered is None or registered.registration != registration or registered.fenced:
            return
        to = recovery_point_after(state, store, self._in_run[store].whole)
        if to <= registered.recovery_point:
            return
        try:
            check_registered(frame, state, store)
            frame.commit(MoveRecoveryPoint(store, registration, to, self._n))
        except SparklogError as error:
            self._fail(store, f"the recovery point stays at {registered.recovery_point}: {error}")

    # ---- rows -----------------------------------------------------------------------------------

    def _count(self, store: StoreId, replica: ReplicaToCheck, object_: ObjectToVerify) -> None:
        row, named = self._rows[store, replica.topic_partition], object_.named.object
        requests = REQUESTS_PER_OBJECT - -named.size_bytes // RANGED_READ_BYTES
        work = row.done + Work(1, 0, named.total_bytes, requests)
        self._rows[store, replica.topic_partition] = msgspec.structs.replace(row, done=work)

    def _note(
        self, store: StoreId, keys: Collection[TopicPartition], outcome: WorkOutcome | None, message: str
    ) -> None:
        """Add a message to the rows of these partitions on the store, and set their outcome (None: leave it).

        A row that has failed stays failed. If none of the partitions has a row, the store's first row is used. A store
        without rows, which the run came across, gets one.
        """
        if not message:
            return
        rows = [(store, key) for key in keys if (store, key) in self._rows]
        rows = rows or [replica for replica in self._rows if replica[0] == store][:1]
        rows = rows or [(store, key) for key in keys if key.topic_id in self._topics][:1]
        for replica in rows:
            row = self._rows.get(replica) or _unplanned(store, replica[1], self._topics[replica[1].topic_id])
            row = row.noted(outcome, message)
            if len(row.messages) > MOST_MESSAGES:
                self._left_out[replica] += 1
            self._rows[replica] = msgspec.structs.replace(row, messages=row.messages[:MOST_MESSAGES])
        if not rows:
            self.notes.append(f"store {store}: {message}")

    def _fail(self, store: StoreId, message: str) -> None:
        self._note(store, [key for other, key in self._rows if other == store], WorkOutcome.FAILED, message)


def _lacking(state: ClusterState, store: StoreId, topics: Iterable[Topic]) -> Iterator[tuple[StoreId, str, Numbers]]:
    """Yield the objects of which the replicas on a store lack slices, partition by partition."""
    for topic in topics:
        for partition in state.partitions_of(topic):
            value = partition.replication
            if store in value.replicas and value.log_end(store) < value.next_offset:
                slices, held = held_by_store(state, store, partition)
                yield store, topic.name, np.unique(slices["object_number"][~held])


def _unplanned(store: StoreId, key: TopicPartition, topic: str) -> PartitionResult:
    place = f"{topic}-{key.partition} on {store}"
    return PartitionResult(place, topic, key.partition, "found beside the planned ones", Work())


def _planned(store: StoreId, replica: ReplicaToCheck) -> PartitionResult:
    key, objects = replica.topic_partition, len(replica.numbers) + len(replica.lacking)
    requests = REQUESTS_PER_OBJECT * objects + max(objects, -(-replica.size_bytes // RANGED_READ_BYTES))
    work = Work(objects, replica.records, replica.size_bytes, requests)
    reasons = [f"from object number {replica.numbers[0]} on"] if len(replica.numbers) else []
    reasons += [f"it lacks {counted(len(replica.lacking), 'object')}"] if len(replica.lacking) else []
    place = f"{replica.topic}-{key.partition} on {store}"
    return PartitionResult(place, replica.topic, key.partition, ", ".join(reasons), work)
