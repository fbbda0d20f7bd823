"""The replication job: catch up every replica that lags, with many tasks at once.

    plan: a row per replica that is behind -> print -> (--dry-run stops here)
    -> per store, in rounds: some objects from each source -> copy in tasks -> read INCARNATION -> ReportReplicas

It does the work of the agents in more tasks. It may run beside agents and other runs: an object that is already there
is not copied again. A store whose INCARNATION is not the registered one is left to its agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Unpack

import msgspec

from sparklog.core.commands import ReportReplicas
from sparklog.core.errors import Conflict, InconsistentClusterId, NotFound, SparklogError, StaleBrokerEpoch
from sparklog.core.lookup import registered_store
from sparklog.core.placement.replica_fetch import (
    FetchLimits,
    ObjectToFetch,
    UnderWay,
    UnfinishedReplicas,
    plan_fetch,
    replica_reports,
    unfinished_replicas,
)
from sparklog.core.state import ClusterState
from sparklog.core.types import ObjectNumber, Offset, OffsetRange, StoreId, TopicPartition
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.incarnation import read_incarnation
from sparklog.log.objects.object_copy import fetch_in_life
from sparklog.maintenance.job_frame import JobFrame, JobOptions, chunks, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome, ended
from sparklog.maintenance.task_runner import packs
from sparklog.storage.keys import data_key

TASK_BYTES: Final = 64 << 20  # small objects share a task up to this many bytes …
TASK_OBJECTS: Final = 64  # … and this many objects
MOST_VAIN_REPORTS: Final = 3  # consecutive reports that other changes overtook
_REQUESTS_PER_SLICE: Final = 7  # look, read and put, for the object and its index; INCARNATION
_REPORT_REQUESTS: Final = 3  # INCARNATION, the entry, its void mark

_Replica = tuple[StoreId, TopicPartition]


def run_replication(cluster_url: str, *, stores: Collection[str] = (), **options: Unpack[JobOptions]) -> JobReport:
    """Copy the objects that replicas lack, and report the copies. With `stores`, only for replicas on these stores.

    Raises BrokerIdNotRegistered, UnknownTopicOrPartition, ClusterNotFound, and any error of reading the chain.
    """
    return run_job(ReplicationJob(stores), cluster_url, **options)


class ReplicationJob:
    """Plans and does the work of `run_replication`, as a `job_frame.Job`."""

    name = "replication"
    unit = "slices"

    def __init__(self, stores: Collection[str], *, but: Collection[ObjectNumber] = ()) -> None:
        """`but`: objects that are not copied, because no store has them whole."""
        self.notes: list[str] = []
        self._stores = [StoreId(store) for store in stores]
        self._but = frozenset(but)
        self._rows: dict[_Replica, PartitionResult] = {}
        self._gave_up: set[_Replica] = set()

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return a row for each replica that lacks records or may join the ISR, store by store.

        A replica that lacks no records has a row without work: it only needs a report to the chain.
        """
        state = frame.connection.newest_state()
        for store in self._stores or sorted(state.stores):
            if registered_store(state, store).fenced:
                self.notes.append(f"store {store} is fenced: nothing is copied there")
                continue
            at = self._standing(frame, state, store)
            for key in sorted({*at.behind, *at.joinable}):
                self._rows[store, key] = _planned(state, store, key)
        return list(self._rows.values())

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Copy the objects in rounds, and report each round. A failed replica does not stop the others."""
        for store in dict.fromkeys(store for store, _ in self._rows):
            try:
                self._fill(frame, store)
            except SparklogError as error:
                self._fail(store, [key for other, key in self._rows if other == store], str(error))
        return ended(self._rows.values())

    def _fill(self, frame: JobFrame, store: StoreId) -> None:
        """Fill the replicas on one store until they lack nothing, or no source has more.

        Replicas that still lack objects then have failed. So have all unfinished replicas after MOST_VAIN_REPORTS
        reports in a row without an effect. Raises what `check_registered` and `_reported` raise.
        """
        failing: set[StoreId] = set()
        vain = 0
        while True:
            state = frame.connection.newest_state()
            at = self._standing(frame, state, store)
            wanted = _wanted(state, store, at.behind, failing, frame.tasks.tasks_at_once)
            if not wanted and not at.joinable:
                self._fail(store, at.behind, "no store that can be asked holds the missing objects")
                return
            check_registered(frame, state, store)
            checked = self._copied(frame, state, store, wanted, failing)
            vain = 0 if self._reported(frame, state, store, checked) else vain + 1
            if vain == MOST_VAIN_REPORTS:
                self._fail(
                    store, {*at.behind, *at.joinable}, f"{vain} reports in a row were overtaken by other changes"
                )
                vain = 0

    def _copied(
        self,
        frame: JobFrame,
        state: ClusterState,
        store: StoreId,
        wanted: Sequence[ObjectToFetch],
        failing: set[StoreId],
    ) -> set[ObjectNumber]:
        """Copy the objects `wanted` in tasks, and return the numbers of those that the store has now.

        A replica for which a copy failed, or that lacks an object that is not copied, is given up for the rest of this
        run. The sources that did not answer are added to `failing`.
        """
        checked: set[ObjectNumber] = set()
        for object_ in wanted:
            if object_.number in self._but:
                key = data_key(object_.object, object_.topic)
                self._fail(store, [object_.topic_partition], f"no store has {key} whole")
        wanted = [object_ for object_ in wanted if object_.number not in self._but]
        for round_ in fetched(frame, state, store, wanted):
            for order, outcome in round_:
                failing.update(outcome.failing)
                for object_, error in zip(order.objects, outcome.errors, strict=True):
                    if error:
                        self._fail(store, [object_.topic_partition], error)
                    else:
                        checked.add(object_.number)
            frame.output.progress(f"objects of this round on store {store}", len(checked), len(wanted))
        return checked

    def _reported(
        self, frame: JobFrame, before: ClusterState, store: StoreId, checked: Collection[ObjectNumber]
    ) -> bool:
        """Report to the chain that the store has the objects `checked`, and add that work to the replicas' rows.

        Returns False if no report had an effect, because other changes were committed first; True also if there is
        nothing to report. Raises StaleBrokerEpoch if the store was registered again since `before`, the state before
        the copies, InconsistentClusterId, and what `check_registered` raises. INCARNATION is read only after the
        copies: if it is still the registered one, it has not changed while the copies were made.
        """
        state = frame.connection.newest_state()
        registration = check_registered(frame, state, store)
        if registration != before.stores[store].registration:
            raise StaleBrokerEpoch(f"store {store} was registered again as {registration} while it was filled")
        at = self._standing(frame, state, store, but=())  # copies from before a failure count
        reports = replica_reports(state, store, at, checked)
        if not reports:
            return True
        try:
            frame.commit(ReportReplicas(store, registration, reports))
        except InconsistentClusterId:
            raise
        except (Conflict, NotFound):
            return False
        after = frame.connection.newest_state()
        moved = False
        for report in reports:
            key = TopicPartition(report.topic_id, report.partition)
            end = _log_end(after, store, key)
            was = state.partitions[key].replication
            if end is not None and (end > was.log_end(store) or store in after.partitions[key].replication.isr):
                self._count(state, store, key, end)
                moved = True
        return moved

    def _count(self, state: ClusterState, store: StoreId, key: TopicPartition, end: Offset) -> None:
        """Add to a replica's row the work of raising its log end from the one in `state` to `end`.

        A replica that was not planned gets a row.
        """
        row = self._rows.get((store, key)) or msgspec.structs.replace(_planned(state, store, key), planned=Work())
        done = _work(state, key, OffsetRange(state.partitions[key].replication.log_end(store), end))
        self._rows[store, key] = msgspec.structs.replace(row, done=row.done + done)

    def _fail(self, store: StoreId, keys: Collection[TopicPartition], message: str) -> None:
        for key in keys:
            self._gave_up.add((store, key))
            row = self._rows.get((store, key))
            if row is not None:
                self._rows[store, key] = row.noted(WorkOutcome.FAILED, message)

    def _standing(
        self, frame: JobFrame, state: ClusterState, store: StoreId, but: Collection[_Replica] | None = None
    ) -> UnfinishedReplicas:
        """Return the replicas of the chosen topics on a store that lack records or may join the ISR.

        `but`: replicas to leave out (None: those that this run has given up).
        """
        topics = {topic.topic_id for topic in frame.chosen_topics(state)}
        at, left_out = unfinished_replicas(state, store), self._gave_up if but is None else but

        def left(keys: Sequence[TopicPartition]) -> list[TopicPartition]:
            return [key for key in keys if key.topic_id in topics and (store, key) not in left_out]

        return UnfinishedReplicas(left(at.behind), left(at.joinable))


# ---- tasks --------------------------------------------------------------------------------------------


class FetchOrder(msgspec.Struct, frozen=True):
    """The work of one task: objects to copy to `store`, whose registered INCARNATION is `incarnation`."""

    addresses: StoreAddresses
    store: StoreId
    incarnation: str
    objects: tuple[ObjectToFetch, ...]


class FetchOutcome(msgspec.Struct, frozen=True):
    """The result of a FetchOrder. `errors`: one per object, "" if the store has the object now.

    `failing`: the sources that did not answer.
    """

    errors: tuple[str, ...]
    failing: tuple[StoreId, ...]


def fetch_objects(payload: bytes) -> bytes:
    """Task: copy the objects of a FetchOrder, and return a FetchOutcome.

    A source that did not answer is asked last for the objects after that.
    """
    order = msgspec.msgpack.decode(payload, type=FetchOrder)
    stores = Stores(order.addresses)
    failing: dict[StoreId, None] = {}
    errors = []
    for object_ in order.objects:
        sources = tuple(sorted(object_.sources, key=lambda source: source in failing))
        try:
            wanted = msgspec.structs.replace(object_, sources=sources)
            fetched = fetch_in_life(wanted, order.store, stores, order.incarnation)
        except Exception as error:  # of any kind: copy the other objects of the task
            errors.append(str(error) or repr(error))
            continue
        failing.update(dict.fromkeys(failure.source for failure in fetched.failures if not failure.lacks_it))
        errors.append("" if fetched.source is not None else "; ".join(failure.error for failure in fetched.failures))
    return msgspec.msgpack.encode(FetchOutcome(tuple(errors), tuple(failing)))


def _wanted(
    state: ClusterState, store: StoreId, behind: Sequence[TopicPartition], failing: set[StoreId], tasks: int
) -> list[ObjectToFetch]:
    """Return the objects to fetch next for the partitions `behind`, whose replicas on `store` lack records.

    They are about enough for `tasks` tasks from each source. Sources in `failing` are left out.
    """
    limits = FetchLimits(TASK_OBJECTS * tasks, TASK_BYTES * tasks)
    batches, _ = plan_fetch(state, store, behind, UnderWay(failing=failing), limits)
    return [object_ for batch in batches for object_ in batch.objects]


def fetched(
    frame: JobFrame, state: ClusterState, store: StoreId, wanted: Sequence[ObjectToFetch]
) -> Iterator[list[tuple[FetchOrder, FetchOutcome]]]:
    """Copy objects to a store in tasks. Yield the orders and outcomes of the tasks that ran at once.

    A task has at most TASK_OBJECTS and TASK_BYTES, or one larger object. Raises errors of running tasks.
    """
    addresses, incarnation = frame.connection.addresses(state), registered_store(state, store).incarnation
    of_tasks = list(packs(wanted, (lambda object_: object_.size_bytes, TASK_BYTES), (lambda _: 1, TASK_OBJECTS)))
    for round_ in chunks(of_tasks, frame.tasks.tasks_at_once):
        orders = [FetchOrder(addresses, store, incarnation, pack) for pack in round_]
        bodies = frame.tasks.run(fetch_objects, [msgspec.msgpack.encode(order) for order in orders])
        yield list(zip(orders, (msgspec.msgpack.decode(body, type=FetchOutcome) for body in bodies), strict=True))


# ---- registrations and work ---------------------------------------------------------------------------


def check_registered(frame: JobFrame, state: ClusterState, store: StoreId) -> int:
    """Return the store's registration.

    Raises StaleBrokerEpoch if the store is fenced, or if its INCARNATION is not the registered one. Raises
    BrokerIdNotRegistered, and the errors of opening and reading the store.
    """
    registered = registered_store(state, store)
    if registered.fenced:
        raise StaleBrokerEpoch(f"store {store} is fenced: `sparklog store add` registers it again")
    mark = read_incarnation(frame.connection.stores(state).get(store))
    actual = "none" if mark is None else mark.incarnation
    if actual != registered.incarnation:
        raise StaleBrokerEpoch(
            f"wanted store {store} with INCARNATION {registered.incarnation}, found {actual} at {registered.url}: it "
            "was wiped or swapped, `sparklog agent` reports that and fills it again"
        )
    return registered.registration


def _planned(state: ClusterState, store: StoreId, key: TopicPartition) -> PartitionResult:
    topic = state.topics[key.topic_id].name
    value = state.partitions[key].replication
    work = _work(state, key, OffsetRange(value.log_end(store), value.next_offset))
    reason = "not in sync" if store not in value.isr else "behind the leader"
    return PartitionResult(f"{topic}-{key.partition} on {store}", topic, key.partition, reason, work)


def _work(state: ClusterState, key: TopicPartition, offsets: OffsetRange) -> Work:
    """Return the work of copying these offsets of a partition, slice by slice.

    Only the bytes of the slices count, although an object is always copied whole, even if other partitions share it.
    """
    columns = state.slices.find(key, offsets).columns
    slices = len(columns["start"])
    requests = _REQUESTS_PER_SLICE * slices + _REPORT_REQUESTS
    return Work(slices, int(columns["records"].sum()), int(columns["length"].sum()), requests)


def _log_end(state: ClusterState, store: StoreId, key: TopicPartition) -> Offset | None:
    partition = state.partitions.get(key)
    if partition is None or store not in partition.replication.replicas:
        return None
    return partition.replication.log_end(store)
