"""The vacuum job: deletes orphans below FLOOR, and metadata that the chain no longer needs.

    raise FLOOR -> list append/ and topics/ of each store in tasks, count orphans -> find old metadata -> print
    -> (--dry-run stops here) -> list the prefixes with orphans again, deleting each orphan by its name -> drop
    abandoned uploads -> delete old snapshots and old blocks of entries, also of copies (`old_metadata.py`)

`core/maintenance/vacuum_rule.py` decides what is an orphan, and says why no command can name it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Unpack

import msgspec

from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.errors import SparklogError
from sparklog.core.maintenance.named_uploads import NamedUploads
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, TopicId
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.objects.orphans import OrphanSearch, OrphansFound, search_orphans, topic_folders
from sparklog.maintenance.job_frame import JobFrame, JobOptions, chunks, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome
from sparklog.maintenance.space.old_metadata import delete_old_metadata, plan_old_metadata
from sparklog.storage.keys import APPENDS, TOPICS
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import registered_url

_KEYS_PER_LISTING = 1_000  # keys that one request lists


def run_vacuum(cluster_url: str, **options: Unpack[JobOptions]) -> JobReport:
    """Raise FLOOR to the newest entry older than `floor.delay.ms` (counted from `now_ms`), and delete orphans below it.

    With `topics`, deletes only orphaned segments of these topics: the name of an append object does not say its topic.
    Raises UnknownTopicOrPartition, ClusterNotFound, and errors from reading the chain.
    """
    return run_job(VacuumJob(), cluster_url, **options)


class VacuumJob:
    """Plans and does the work of `run_vacuum`, as a `job_frame.Job`."""

    name = "vacuum"
    unit = "objects"
    notes = ()

    def __init__(self) -> None:
        self._due: list[tuple[PartitionResult, OrphanSearch]] = []
        self._failed: list[PartitionResult] = []
        self._old: list[PartitionResult] = []

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Raise FLOOR, and return a row for each prefix of keys with orphans, and for old metadata.

        With --dry-run, FLOOR stays, and the rows show what a raised FLOOR would allow.
        """
        floor = frame.due_floor() if frame.dry_run else frame.raise_floor()
        searches, self._failed = orphan_searches(frame, floor)
        for search, result in zip(searches, run_searches(frame, searches, delete=False), strict=True):
            row = _planned(search, result)
            if result.failed:
                self._failed.append(row.noted(WorkOutcome.FAILED, *result.errors))
            elif result.orphans:
                self._due.append((row, search))
        self._old = plan_old_metadata(frame) if frame.topics is None else []
        return [*(row for row, _ in self._due), *self._failed, *self._old]

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Delete the orphans and abandoned uploads and, unless topics were chosen, old metadata."""
        rows = list(self._failed)
        if self._due:
            frame.settled_state()  # newer than the state of the plan, which defines the orphans
        results = run_searches(frame, [search for _, search in self._due], delete=True)
        for (row, _), result in zip(self._due, results, strict=True):
            done = Work(result.deleted, 0, result.deleted_bytes, result.deleted + _listings(result))
            done_row = msgspec.structs.replace(row, done=done, outcome=WorkOutcome.DONE)
            rows.append(done_row.noted(WorkOutcome.FAILED, *result.errors) if result.failed else done_row)
        rows += _remove_abandoned(frame)
        return rows if frame.topics is not None else [*rows, *delete_old_metadata(frame, self._old)]


class _VacuumOrder(msgspec.Struct, frozen=True):
    addresses: StoreAddresses
    search: OrphanSearch
    delete: bool


def search_store(payload: bytes) -> bytes:
    """Task: do the search of a _VacuumOrder, and return OrphansFound, with `failed` 1 if an error ended the search."""
    order = msgspec.msgpack.decode(payload, type=_VacuumOrder)
    try:
        stores, name = Stores(order.addresses), order.search.store
        check = partial(stores.check_owner, name)
        orphans = search_orphans(order.search, stores.get(name), delete=order.delete, check=check)
    except SparklogError as error:
        orphans = OrphansFound(failed=1, errors=(str(error),))
    return msgspec.msgpack.encode(orphans)


def run_searches(frame: JobFrame, searches: Sequence[OrphanSearch], *, delete: bool) -> list[OrphansFound]:
    """Return the result of each search, in order. The result of a search that an error ended has `failed` 1."""
    state = frame.connection.newest_state()
    addresses = frame.connection.addresses(state)
    results: list[OrphansFound] = []
    for round_ in chunks(searches, frame.tasks.tasks_at_once):
        orders = [_VacuumOrder(addresses, search, delete) for search in round_]
        try:
            bodies = frame.tasks.run(search_store, [msgspec.msgpack.encode(order) for order in orders])
            results += [msgspec.msgpack.decode(body, type=OrphansFound) for body in bodies]
        except SparklogError as error:
            results += [OrphansFound(failed=1, errors=(str(error),))] * len(round_)
        frame.output.progress("prefixes searched", len(results), len(searches))
    return results


def orphan_searches(frame: JobFrame, floor: EntryNumber) -> tuple[list[OrphanSearch], list[PartitionResult]]:
    """Return one search per store and prefix, and a failed row for each store that can't be listed.

    The searches use the newest state, which is at or after FLOOR's entry. So an object below FLOOR that this state does
    not name is an orphan for ever.
    """
    searches: list[OrphanSearch] = []
    failed: list[PartitionResult] = []
    state = frame.connection.newest_state()
    named = NamedUploads(state)
    for store in state.registrations():  # a fenced one is searched when it is back
        try:
            folders = list(topic_folders(frame.connection.stores(state).get(store)))
        except SparklogError as error:  # continue with the other stores
            row = PartitionResult(f"{store}:{TOPICS}", None, None, "can't be listed", Work())
            failed.append(row.noted(WorkOutcome.FAILED, str(error)))
            continue
        if frame.topics is None:
            searches += [
                OrphanSearch(store, f"{APPENDS}{digits}", floor, named.of_appends(digits).tobytes())
                for digits in named.append_digits()
            ]
        for folder in folders:
            topic_id = _topic_id(folder)
            if topic_id is not None and _wanted(frame, state, topic_id):
                searches.append(OrphanSearch(store, folder, floor, named.of_topic(topic_id).tobytes()))
    return searches, failed


def _topic_id(folder: str) -> TopicId | None:
    digits = folder.removeprefix(TOPICS).partition("-")[0]
    return TopicId(int(digits)) if digits.isdecimal() and digits.isascii() else None


def _wanted(frame: JobFrame, state: ClusterState, topic_id: TopicId) -> bool:
    topic = state.topics.get(topic_id)
    return frame.topics is None or (topic is not None and topic.name in frame.topics)


def _planned(search: OrphanSearch, result: OrphansFound) -> PartitionResult:
    foreign = f", {result.foreign:,} names that are not sparklog's are left" if result.foreign else ""
    return PartitionResult(
        f"{search.store}:{search.prefix}",
        None,
        None,
        f"begun before FLOOR {search.floor}, named by nothing{foreign}",
        Work(result.orphans, 0, result.size_bytes, result.orphans + _listings(result)),
    )


def _listings(result: OrphansFound) -> int:
    return 1 + result.keys // _KEYS_PER_LISTING


def _remove_abandoned(frame: JobFrame) -> list[PartitionResult]:
    """Drop uploads that were begun more than `floor.delay.ms` ago and never published.

    If such an upload is still in progress, it fails as a whole. Returns a row for each store with dropped uploads, or
    with a failure.
    """
    state = frame.connection.newest_state()
    before_ms = frame.job_time(state) - effective_cluster(state.config).floor_delay_ms
    stores, registered = frame.connection.stores(state), state.registrations()
    urls = {registered_url(frame.connection.url, state.stores[store].url) for store in registered}
    root = frame.connection.follower.store
    places: dict[str, Callable[[], ObjectStore]] = {str(store): partial(stores.get, store) for store in registered}
    if root.url not in urls:
        places["metadata"] = lambda: root
    rows = []
    for name, opened in places.items():
        try:
            removed = opened().remove_abandoned(before_ms)
        except SparklogError as error:  # also if it can't be opened
            row = PartitionResult(f"{name}:uploads", None, None, "", Work())
            rows.append(row.noted(WorkOutcome.FAILED, str(error)))
            continue
        if removed:
            done = Work(removed, 0, 0, removed)
            rows.append(
                PartitionResult(f"{name}:uploads", None, None, "never published", done, done, outcome=WorkOutcome.DONE)
            )
    return rows
