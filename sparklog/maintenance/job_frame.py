"""The frame of every maintenance job.

    plan from the chain -> print the plan -> (--dry-run stops here) -> heavy part as tasks -> one command per swap or
    log start -> delete what is due -> raise FLOOR -> report, which is also a record of the chain

A job changes the log only by commands that the chain accepts or refuses as a whole. So it is safe next to writers,
readers and a second copy of itself, and it can be killed at any point and run again. Objects that it uploaded but never
named are orphans. Objects that the log dropped but the job did not delete stay retired until the next run.

Ages of records and of chain entries count from `now_ms` (--now). The delay of a retired object never counts from it,
because readers rely on that delay: it counts by the machine's clock. What the chain says bounds that clock
(`job_time`, `time_shown`), and a job whose clock is more than a day ahead of a leading coordinator's, or of the server
that holds the metadata, does not begin.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol, TextIO, TypedDict, TypeVar, Unpack, overload

import msgspec

from sparklog.chain.floor import newest_older_than, time_shown
from sparklog.client.commits.many import COMMITS_AT_ONCE, commit_many
from sparklog.client.connection import Connection
from sparklog.core.commands import Command, ConfirmDeleted, RaiseFloor, ReportJob, Submission
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.config.storage import NO_SETTINGS, StorageSettings
from sparklog.core.coordination import Author
from sparklog.core.decide.groups import expired as expired_offsets
from sparklog.core.decide.groups import last_heard, silent_members
from sparklog.core.describe.readable import point_in_time
from sparklog.core.errors import InvalidInput, Landed, SparklogError, WriteExpired
from sparklog.core.lookup import topic_of
from sparklog.core.maintenance.job_clock import check_clock, job_time
from sparklog.core.maintenance.retired_objects import due_for_deletion
from sparklog.core.records import CommandResult
from sparklog.core.state import ClusterState, Topic
from sparklog.core.tables.column_blocks import Column
from sparklog.core.types import EntryNumber, ObjectNumber
from sparklog.host.clock import Clock, SystemClock
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.objects.object_deletion import Deleted, ObjectToDelete, delete_objects
from sparklog.maintenance.job_output import JobOutput
from sparklog.maintenance.job_report import DeletionResult, JobReport, PartitionResult, Work, WorkOutcome, total
from sparklog.maintenance.store_clock import check_clock_beside_store
from sparklog.maintenance.task_runner import LocalTasks, TaskRunner
from sparklog.storage.keys import data_key

T = TypeVar("T")
COMMIT_ATTEMPTS = 3
DELETED_AT_ONCE = 250  # objects in one task, and in one DELETED record


class Job(Protocol):
    """One kind of job: its plan and its work. Call `plan` once, then `execute` once unless this is a dry run."""

    name: str
    unit: str  # of the objects that its plan counts

    @property
    def notes(self) -> Sequence[str]:
        """Remarks for the user: about the plan after `plan`, about the work after `execute`."""
        ...

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return the work that is due, one row for each partition that has any. Changes nothing in the log."""
        ...

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Do the planned work. Return the rows of the plan with their outcomes, and perhaps rows that the plan lacked.

        A failure in the work of one row does not stop the work of the other rows.
        """
        ...


class JobOptions(TypedDict, total=False):
    """The options of every job, by keyword.

    `topics`: only these (default: all). `now_ms`: the time from which ages are counted (default: now). `dry_run`: print
    the plan and change nothing. `tasks`: runs the heavy part (default: in this process). `console`: prints the plan and
    progress. `clock`: the machine's, except in tests. `settings`: how the job reaches the cluster and its stores; they
    take precedence over this process's own.
    """

    topics: Collection[str] | None
    now_ms: int | None
    dry_run: bool
    tasks: TaskRunner | None
    console: TextIO | None
    clock: Clock | None
    settings: StorageSettings


class JobFrame:
    """The environment of a job: the cluster, the clocks, the task runner and the output."""

    def __init__(
        self,
        name: str,
        cluster_url: str,
        *,
        topics: Collection[str] | None = None,
        now_ms: int | None = None,
        dry_run: bool = False,
        tasks: TaskRunner | None = None,
        console: TextIO | None = None,
        clock: Clock | None = None,
        settings: StorageSettings = NO_SETTINGS,
    ) -> None:
        self.clock = clock or SystemClock()
        self.now_was_given = now_ms is not None
        self.dry_run = dry_run
        self.tasks = tasks or LocalTasks()
        if cluster_url.startswith("memory:") and not self.tasks.in_this_process:
            raise InvalidInput(f"{cluster_url} lives in one process: Spark tasks can't reach it, use file:///path")
        self.output = JobOutput(console, self.clock)
        author = Author("job", f"{name}@{socket.gethostname()}:{os.getpid()}")
        self.connection = Connection(cluster_url, author, settings)
        self.connection.committer.clock = self.clock
        self.topics = frozenset(topics) if topics else None
        state = self.connection.newest_state()
        self._began_at = state.n + 1
        self.now_ms = self.job_time(state) if now_ms is None else now_ms
        for topic in self.topics or ():
            topic_of(state, topic)

    def chosen_topics(self, state: ClusterState) -> Iterator[Topic]:
        """The job's topics, sorted by name: all topics, or those of the requested ones that still exist."""
        for name in sorted(state.topic_ids):
            if self.topics is None or name in self.topics:
                yield topic_of(state, name)

    def commit(self, command: Command) -> CommandResult:
        """Commit a command that names no objects.

        If FLOOR rises above the command's n0 before the commit, the command is submitted again with a new n0,
        COMMIT_ATTEMPTS times at most in all. Raises the command's error.
        """
        for _ in range(COMMIT_ATTEMPTS - 1):
            try:
                return self.connection.submit(command)
            except WriteExpired as error:
                if error.landed is not Landed.NO:
                    raise
        return self.connection.submit(command)

    def commit_all(self, commands: Sequence[Command]) -> list[CommandResult | SparklogError]:
        """Commit many commands that name no objects, as `commit` does.

        Commands that wait at the same time share an entry. Returns the result of each command, in order; an error is
        returned as a value.
        """
        return commit_many(self.commit, commands, COMMITS_AT_ONCE)

    def submit_all(self, submissions: Sequence[Submission]) -> list[CommandResult | SparklogError]:
        """Commit commands that name objects. Each has an n0 from before its objects were uploaded.

        Returns the result of each command, in order; an error is returned as a value.
        """
        return commit_many(self.connection.committer.submit, submissions, COMMITS_AT_ONCE)

    def settled_state(self) -> ClusterState:
        """Return the newest state, after all its entries are durable, also on the mirrors if the cluster has any.

        Base deletions only on such a state. If the metadata were lost, a restore would otherwise not know the last
        entries, and the restored cluster would name objects that are gone.
        """
        state = self.connection.newest_state()
        self.commit(ConfirmDeleted(()))  # changes nothing, and is answered once all entries before it are settled
        return state

    # ---- time -----------------------------------------------------------------------------------

    def job_time(self, state: ClusterState) -> int:
        """This machine's time, or that of the coordinator in force if it is earlier (`job_time`)."""
        return job_time(state, self.clock.now_ms())

    def check_clock(self) -> None:
        """Raise InvalidInput if this machine's clock is more than a day ahead of the coordinator's or the store's."""
        check_clock(self.connection.follower.state, self.clock.now_ms())
        check_clock_beside_store(self.connection, self.clock.now_ms(), dry_run=self.dry_run)

    def time_shown(self) -> int:
        """Return this machine's time, or the earlier one that recent entries show (`time_shown`).

        On a quiet chain it is far too early. Use it for things that may expire late, but never early.
        """
        return time_shown(self.connection.follower.store, self._began_at, self.clock.now_ms())

    # ---- FLOOR ----------------------------------------------------------------------------------

    def due_floor(self) -> EntryNumber:
        """Return the position at which FLOOR should be: the newest entry that is older than `floor.delay.ms`.

        If the present FLOOR is higher, it is returned.
        """
        state = self.connection.newest_state()
        floor, end, delay_ms = state.floor, state.n + 1, effective_cluster(state.config).floor_delay_ms
        return newest_older_than(self.connection.follower.store, floor, end, self.now_ms - delay_ms)

    def raise_floor(self) -> EntryNumber:
        """Raise FLOOR if that is due, and return it. Also forget silent producers and members, and expired offsets."""
        floor = self.due_floor()
        silent_before = self._silent_before(floor)
        state = self.connection.newest_state()
        now_ms = self.clock.now_ms()
        expires = _expires(state, now_ms)
        if expires:
            now_ms = self.time_shown()
            expires = _expires(state, now_ms)
        if floor > state.floor or expires or silent_members(state, silent_before):
            self.commit(RaiseFloor(floor, silent_before, now_ms))
        return floor

    def _silent_before(self, floor: EntryNumber) -> EntryNumber:
        """Return an entry number: a member whose last renewal is before this entry is silent.

        If there is a silent member, this is the newest entry older than `floor.delay.ms`. Otherwise it may be any entry
        without a silent member before it, such as entry 0.

        `floor` can't be used for this: it depends on `now_ms`, which a user may set to a time in the future. Then the
        last renewal of an active member may be before `floor`. So here an entry's age is measured by this machine's
        clock, or by the time of a recent entry if that is earlier.
        """
        state = self.connection.newest_state()
        silent = [member for gone in silent_members(state, floor).values() for member in gone]
        heard = min((last_heard(state, member) for member in silent), default=None)
        end, delay_ms = state.n + 1, effective_cluster(state.config).floor_delay_ms
        if heard is None:
            return EntryNumber(0)
        store = self.connection.follower.store
        return newest_older_than(store, heard, end, self.time_shown() - delay_ms)

    # ---- retired objects ------------------------------------------------------------------------

    def due_deletions(self) -> Work:
        """Return the work of deleting the retired objects whose delay has passed by `job_time`."""
        state = self.connection.newest_state()
        due = due_for_deletion(state, self.job_time(state), self.topics)
        return total(_deletion_work(self._to_delete(state, group)) for group in chunks(due, DELETED_AT_ONCE))

    def delete_due(self) -> DeletionResult:
        """Delete the retired objects whose delay has passed, and record each group of deletions in the chain."""
        planned, done, failed = Work(), Work(), 0
        messages: list[str] = []
        if not self.due_deletions().objects:
            return DeletionResult()
        state = self.settled_state()
        addresses = self.connection.addresses(state)
        due = due_for_deletion(state, self.job_time(state), self.topics)
        for round_ in chunks(due, DELETED_AT_ONCE * self.tasks.tasks_at_once):  # there may be millions
            state = self.connection.newest_state()
            groups = [tuple(self._to_delete(state, group)) for group in chunks(round_, DELETED_AT_ONCE)]
            orders = [msgspec.msgpack.encode(_DeletionOrder(addresses, group)) for group in groups]
            alone = len(due) <= DELETED_AT_ONCE
            results = [_delete(order) for order in orders] if alone else self.tasks.run(_delete, orders)
            for group, body in zip(groups, results, strict=True):
                deleted = msgspec.msgpack.decode(body, type=Deleted)
                messages += [f"{failure.key} can't be deleted: {failure.error}" for failure in deleted.failed]
                failed += len(deleted.failed)
                if deleted.numbers:
                    self.commit(ConfirmDeleted(deleted.numbers))
                gone = set(deleted.numbers)
                planned += _deletion_work(group)
                done += _deletion_work([retired for retired in group if retired.number in gone])
            self.output.progress("retired objects deleted", done.objects, len(due))
        return DeletionResult(planned, done, failed, tuple(messages))

    def _to_delete(self, state: ClusterState, numbers: Column) -> list[ObjectToDelete]:
        """Return the retired objects among `numbers` that no other run has deleted yet, each with its stores.

        Each is deleted from every store that may have a copy and is not fenced: a holder under any registration, or a
        store with a replica. A copy on a fenced store becomes an orphan, which vacuum deletes when the store is back.
        """
        registered = state.registrations()
        orders = []
        for retired in state.retired.of([ObjectNumber(number) for number in numbers.tolist()]):
            named = state.objects.get(retired.number)
            if named is None:
                raise AssertionError(f"object {retired.number} is retired, so it is named until a DELETED record")
            may_hold = dict.fromkeys([*(holder.store for holder in named.holders), *retired.stores])
            stores = tuple(store for store in may_hold if store in registered)
            orders.append(ObjectToDelete(retired.number, data_key(named, retired.topic), stores, named.total_bytes))
        return orders


def run_job(job: Job, cluster_url: str, *, only_reads: bool = False, **options: Unpack[JobOptions]) -> JobReport:
    """Run a job, and return its report. Raises only errors that prevent planning; the report lists failures of parts.

    With `only_reads`, no retired objects are deleted after the job, and FLOOR is not raised. Without it, the report's
    exit code is 1 if the report can't be recorded in the chain.
    """
    frame = JobFrame(job.name, cluster_url, **options)
    started_ms = frame.clock.now_ms()
    try:
        if not only_reads:
            frame.check_clock()
        rows = job.plan(frame)
        planned = total(row.planned for row in rows)
        deletion = DeletionResult() if only_reads else DeletionResult(frame.due_deletions())
        notes = list(job.notes)
        notes += [f"ages are counted from {point_in_time(frame.now_ms)} (--now)"] if frame.now_was_given else []
        title = f"{job.name} {frame.connection.url}"
        frame.output.plan(title, job.unit, rows, planned, deletion.planned, notes)
        if frame.dry_run:
            return _report(job, frame, started_ms, rows, deletion, frame.due_floor(), notes)
        rows = job.execute(frame)
        notes += [note for note in job.notes if note not in notes]
        deletion, floor = (deletion, _floor(frame)) if only_reads else _after(frame, deletion, notes)
        report = _report(job, frame, started_ms, rows, deletion, floor, notes)
        try:
            failed = report.failed + report.deletion.failed
            frame.commit(ReportJob(job.name, started_ms, report.ended_ms, failed, report.for_chain()))
        except SparklogError as error:
            note = f"the report could not be recorded in the chain: {error}"
            exit_code = report.exit_code if only_reads else 1
            report = msgspec.structs.replace(report, notes=(*report.notes, note), exit_code=exit_code)
        frame.output.end(report)
        return report
    finally:
        frame.connection.close()


def _after(frame: JobFrame, planned: DeletionResult, notes: list[str]) -> tuple[DeletionResult, EntryNumber]:
    """Delete the objects that are due and raise FLOOR. If one of these fails, the other is still done."""
    try:
        deletion = frame.delete_due()
    except SparklogError as error:
        deletion = DeletionResult(planned.planned, failed=1, messages=(f"deletion ended early: {error}",))
    try:
        return deletion, frame.raise_floor()
    except SparklogError as error:
        notes.append(f"FLOOR was not raised: {error}")  # the next run tries again; the delay does no harm
        return deletion, _floor(frame)


def _expires(state: ClusterState, now_ms: int) -> bool:
    """True if the state has producers or offsets that are to be forgotten at this time."""
    silent_ms = now_ms - effective_cluster(state.config).producer_id_expiration_ms
    silent = any(producer.last_used_ms < silent_ms for producer in state.producers.values())
    return silent or expired_offsets(state, now_ms) is not None


def _floor(frame: JobFrame) -> EntryNumber:
    state = frame.connection.newest_state()
    return state.floor


def _report(
    job: Job,
    frame: JobFrame,
    started_ms: int,
    rows: Sequence[PartitionResult],
    deletion: DeletionResult,
    floor: EntryNumber,
    notes: Sequence[str],
) -> JobReport:
    failed = sum(row.outcome is WorkOutcome.FAILED for row in rows)
    return JobReport(
        job.name,
        frame.connection.url,
        frame.dry_run,
        frame.now_ms,
        started_ms,
        frame.clock.now_ms(),
        total(row.planned for row in rows),
        total(row.done for row in rows),
        failed,
        tuple(rows),
        deletion,
        floor,
        tuple(notes),
        1 if failed or deletion.failed else 0,
    )


class _DeletionOrder(msgspec.Struct, frozen=True):
    addresses: StoreAddresses
    objects: tuple[ObjectToDelete, ...]


def _delete(payload: bytes) -> bytes:
    """Task: delete the objects of a _DeletionOrder, and return a Deleted."""
    order = msgspec.msgpack.decode(payload, type=_DeletionOrder)
    return msgspec.msgpack.encode(delete_objects(order.objects, Stores(order.addresses)))


def _deletion_work(objects: Sequence[ObjectToDelete]) -> Work:
    requests = sum(2 * len(retired.stores) for retired in objects) - -len(objects) // DELETED_AT_ONCE
    return Work(len(objects), 0, sum(retired.size_bytes for retired in objects), requests)


@overload
def chunks(items: Column, size: int) -> Iterator[Column]: ...
@overload
def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]: ...
def chunks(items: Sequence[T] | Column, size: int) -> Iterator[Sequence[T] | Column]:
    """Yield the items in order, `size` at a time; the last part may have fewer."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
