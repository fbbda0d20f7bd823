"""The verify job: compares all stored data with the chain, and the chain with itself. It changes nothing.

    plan: a row per store and topic, and one for the metadata -> print -> (--dry-run stops here)
    -> INCARNATION of each store -> objects in tasks, on all their stores -> drop what the newest state does not confirm
    -> the chain, its snapshots, and its copies -> count orphans -> a Difference per place that is not as it should be

Retention, roll and moves continue meanwhile. So an object is no difference if the chain no longer names it, or if the
store need no longer have it. A store that does not answer is a difference, because its contents are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Unpack

import msgspec

from sparklog.chain.mirror.verify_mirrors import verify_mirror
from sparklog.chain.verify_chain import ChainVerified, verify_chain
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.describe.readable import counted
from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.core.lookup import registered_store
from sparklog.core.maintenance.differences import METADATA, Difference, DifferenceKind, advice_for_object
from sparklog.core.maintenance.objects_to_verify import (
    ObjectsWanted,
    ObjectToVerify,
    Share,
    objects_to_verify,
    slices_still_held,
    sums_to_verify,
)
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import StoreId
from sparklog.log.check.sighting import Sighting, differences_of, unreadable
from sparklog.log.incarnation import AnotherIncarnation, check_incarnation
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES
from sparklog.maintenance.job_frame import JobFrame, JobOptions, run_job
from sparklog.maintenance.job_output import JobOutput
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome, ended
from sparklog.maintenance.space.vacuum_job import orphan_searches, run_searches
from sparklog.maintenance.verify.look_tasks import REQUESTS_PER_OBJECT, look, rounds
from sparklog.storage.open_store import is_elsewhere

MOST_DIFFERENCES: Final = 100_000  # rows of a report; more are only counted
MOST_SHARES: Final = 10_000  # days, if a run reads one of them each day
DIFFERENCES_SHOWN: Final = 50  # on the console
SHOWN_MESSAGES: Final = 5  # differences in the row of a store and topic
DAY_MS: Final = 86_400_000
CHAIN: Final = f"{METADATA}:chain"
ORPHANS: Final = "orphans"

_Place = tuple[StoreId, str]  # store and topic


class VerifyReport(JobReport, frozen=True):
    """The report of the job, with the first MOST_DIFFERENCES differences."""

    differences: tuple[Difference, ...] = ()


def run_verify(
    cluster_url: str, *, stores: Collection[str] = (), share: int = 1, **options: Unpack[JobOptions]
) -> VerifyReport:
    """Verify the cluster. With `topics` or `stores`, verify only objects of those topics on those stores, no metadata.

    With `share` N, only one of N parts of the objects is read. The part changes with each day (UTC) of `now_ms`, so N
    daily runs read everything.

    Raises BrokerIdNotRegistered, UnknownTopicOrPartition, InvalidInput, ClusterNotFound, and any error of reading the
    chain.
    """
    if not 1 <= share <= MOST_SHARES:
        raise InvalidInput(f"share: wanted 1 (everything) to {MOST_SHARES:,}, found {share}")
    job = VerifyJob(stores, share)
    report = run_job(job, cluster_url, only_reads=True, **options)
    fields = {name: getattr(report, name) for name in JobReport.__struct_fields__}
    return VerifyReport(**fields, differences=tuple(job.differences))


class VerifyJob:
    """Plans and does the work of `run_verify`, as a `job_frame.Job`.

    After `execute`, `differences` has the first MOST_DIFFERENCES differences.
    """

    name = "verify"
    unit = "objects"

    def __init__(self, stores: Collection[str], share: int) -> None:
        self.notes: list[str] = []
        self.differences: list[Difference] = []
        self._stores = [StoreId(store) for store in stores]
        self._share = share
        self._rows: dict[_Place, PartitionResult] = {}
        self._others: dict[str, PartitionResult] = {}  # by place: the metadata, and stores as a whole
        self._not_listed = 0
        self._unanswered: dict[_Place, tuple[int, str]] = {}  # how many objects, and the first error
        self._silent: dict[StoreId, str] = {}  # stores that are not asked any more, and the error of the last answer

    # ---- the plan ---------------------------------------------------------------------------------

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return a row per store and topic, and one for the metadata unless topics or stores were chosen."""
        state = frame.connection.newest_state()
        wanted = self._wanted(frame, state)
        for store, topic, sums in sums_to_verify(state, wanted, RANGED_READ_BYTES):
            requests = REQUESTS_PER_OBJECT * sums.objects + sums.reads
            work = Work(sums.objects, sums.records, sums.size_bytes, requests)
            self._rows[store, topic.name] = msgspec.structs.replace(self._row(store, topic.name), planned=work)
        if self._is_whole(frame):
            entries = state.n + 1
            work = Work(entries, 0, 0, entries)
            self._others[CHAIN] = PartitionResult(CHAIN, None, None, "entries, snapshots, copies", work)
        if wanted.share.of > 1:
            self.notes.append(f"share {wanted.share.part + 1} of {wanted.share.of}: the next day has the next one")
        return [*self._rows.values(), *self._others.values()]

    def _wanted(self, frame: JobFrame, state: ClusterState) -> ObjectsWanted:
        topics = frozenset(topic.topic_id for topic in frame.chosen_topics(state))
        stores = []
        for store in self._stores or sorted(state.stores):
            if registered_store(state, store).fenced:
                note = f"store {store} is fenced: it is not verified"
                if note not in self.notes:
                    self.notes.append(note)
            else:
                stores.append(store)
        share = Share(frame.now_ms // DAY_MS % self._share, self._share)
        return ObjectsWanted(topics, frozenset(stores), share=share)

    def _is_whole(self, frame: JobFrame) -> bool:
        return frame.topics is None and not self._stores

    # ---- the work ---------------------------------------------------------------------------------

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Verify objects, then the chain and its copies unless topics or stores were chosen, and count orphans.

        A part that can't be read does not stop the others.
        """
        state = frame.connection.newest_state()
        wanted = self._wanted(frame, state)
        self._check_incarnations(frame, [state.stores[store] for store in sorted(wanted.stores)])
        self._verify_objects(frame, state, wanted)
        if self._is_whole(frame):
            self._verify_chain(frame)
        self._count_orphans(frame, wanted)
        for (store, topic), (objects, error) in self._unanswered.items():
            self._add(unreadable(store, topic, objects, error))
        if self.differences:
            self._say_differences(frame.output)
        return ended([*self._rows.values(), *self._others.values()])

    def _check_incarnations(self, frame: JobFrame, stores: Sequence[Store]) -> None:
        """Add a difference for each store whose INCARNATION is not the registered one.

        Such a store was wiped, or swapped for another one: it lacks the objects, or has other ones.
        """
        for store in stores:
            try:
                state = frame.connection.newest_state()
                target = frame.connection.stores(state).get(store.store)
                check_incarnation(target, store.incarnation)
            except AnotherIncarnation as error:
                state = frame.connection.newest_state()
                now = state.stores.get(store.store)
                if now is None or now.registration != store.registration or now.fenced:
                    continue
                row = Difference(
                    DifferenceKind.INCARNATION, store.store, "INCARNATION", store.incarnation, error.message
                )
                self._add(msgspec.structs.replace(row, advice=advice_for_object(row)))
            except SparklogError:  # it is reported for the objects of the store
                continue

    def _verify_objects(self, frame: JobFrame, state: ClusterState, wanted: ObjectsWanted) -> None:
        """Look at the objects in rounds. A store that could not be read in a whole round is not asked any more."""
        seen, planned = 0, sum(row.planned.objects for row in self._rows.values())
        for round_ in rounds(frame, objects_to_verify(state, wanted)):
            try:
                looked = look(frame, round_, repair=False, silent=self._silent)
            except SparklogError as error:
                for object_ in (object_ for pack in round_ for object_ in pack):
                    for store in object_.stores:
                        self._count_unanswered(store, object_.topic, str(error))
                continue
            answered = {of.store for _, sightings in looked for of in sightings if of.check is not None}
            now = frame.connection.newest_state()
            for object_, sightings in looked:
                self._take(now, object_, sightings)
                self._silent |= {of.store: of.error for of in sightings if of.store not in answered}
                seen += len(sightings)
            frame.output.progress("objects verified", seen, planned)

    def _take(self, now: ClusterState, object_: ObjectToVerify, sightings: Sequence[Sighting]) -> None:
        """Count an object on the stores that were read. Add its differences that the newest state, `now`, confirms."""
        for of in sightings:
            if of.check is not None:
                records = sum(slice_.records for slice_ in object_.slices)
                row = self._row(of.store, object_.topic)
                work = row.done + Work(1, records, of.check.read_bytes, of.check.requests)
                self._rows[of.store, object_.topic] = msgspec.structs.replace(row, done=work)
            if of.is_whole:
                continue
            slices = slices_still_held(now, object_, of.store)
            if slices and of.check is None:
                self._count_unanswered(of.store, object_.topic, of.error)
            elif slices:
                for difference in differences_of(object_, sightings, of, slices):
                    self._add(difference)

    def _count_unanswered(self, store: StoreId, topic: str, error: str) -> None:
        objects, first = self._unanswered.get((store, topic), (0, ""))
        self._unanswered[store, topic] = objects + 1, first or error

    # ---- the metadata -----------------------------------------------------------------------------

    def _verify_chain(self, frame: JobFrame) -> None:
        head = frame.connection.follower.catch_up()
        chain = frame.connection.follower.store
        stores = [
            store
            for store in head.state.stores.values()
            if not store.fenced and is_elsewhere(frame.connection.url, store.url)
        ]
        mirrored = bool(stores) and effective_cluster(head.state.config).metadata_copies > 0

        def progress(done: int, of: int) -> None:
            frame.output.progress("entries of the chain verified", done, of)

        try:
            self._take_chain(verify_chain(chain, head, mirrored=mirrored, progress=progress))
        except SparklogError as error:
            self._add(_chain_unreadable(METADATA, error))
        if not mirrored:
            return
        for store in stores:
            try:
                state = frame.connection.newest_state()
                target = frame.connection.stores(state).get(store.store)
                self._take_chain(verify_mirror(chain, store.store, target, head.state.chain_id))
            except SparklogError as error:
                self._add(_chain_unreadable(store.store, error))

    def _take_chain(self, verified: ChainVerified) -> None:
        objects = verified.entries + verified.snapshots + verified.bodies
        row = self._others[CHAIN]
        work = row.done + Work(objects, 0, verified.size_bytes, verified.requests)
        self._others[CHAIN] = msgspec.structs.replace(row, done=work)
        for difference in verified.differences:
            self._add(difference)

    # ---- orphans ----------------------------------------------------------------------------------

    def _count_orphans(self, frame: JobFrame, wanted: ObjectsWanted) -> None:
        """Count orphans. An orphan is not a difference: no command can name it any more, and vacuum deletes it.

        Only the stores to verify are searched. One that does not answer or can't be listed is left out.
        """
        state = frame.connection.newest_state()
        floor = state.floor
        searches, _ = orphan_searches(frame, floor)
        searches = [search for search in searches if search.store in wanted.stores - self._silent.keys()]
        results = run_searches(frame, searches, delete=False)
        orphans, size_bytes = sum(of.orphans for of in results), sum(of.size_bytes for of in results)
        if orphans:
            reason = f"begun before FLOOR {floor}, named by nothing: 'sparklog job vacuum' deletes them"
            work = Work(orphans, 0, size_bytes, len(searches))
            self._others[ORPHANS] = PartitionResult(ORPHANS, None, None, reason, Work(), work)

    # ---- the rows ---------------------------------------------------------------------------------

    def _add(self, difference: Difference) -> None:
        if len(self.differences) < MOST_DIFFERENCES:
            self.differences.append(difference)
        else:
            self._not_listed += 1
        if difference.topic is not None:
            place = StoreId(difference.store), difference.topic
            self._rows[place] = _with_message(self._row(*place), difference)
            return
        of_store = difference.kind is DifferenceKind.INCARNATION or CHAIN not in self._others
        name = difference.store if of_store else CHAIN
        row = self._others.get(name) or PartitionResult(name, None, None, "as registered", Work())
        self._others[name] = _with_message(row, difference)

    def _say_differences(self, output: JobOutput) -> None:
        """Print the first DIFFERENCES_SHOWN differences, each with what to do about it, and the number of all."""
        count = len(self.differences) + self._not_listed
        rest = count - DIFFERENCES_SHOWN
        output.say(counted(count, "difference") + (f", {rest:,} more in the report" if rest > 0 else ""))
        for difference in self.differences[:DIFFERENCES_SHOWN]:
            output.say(f"{difference}: {difference.advice}")

    def _row(self, store: StoreId, topic: str) -> PartitionResult:
        existing = self._rows.get((store, topic))
        return existing or PartitionResult(f"{topic} on {store}", topic, None, "compared with the chain", Work())


def _with_message(row: PartitionResult, difference: Difference) -> PartitionResult:
    messages = row.messages if len(row.messages) >= SHOWN_MESSAGES else (*row.messages, str(difference))
    return msgspec.structs.replace(row, outcome=WorkOutcome.FAILED, messages=messages)


def _chain_unreadable(store: str, error: SparklogError) -> Difference:
    advice = "bring the store back, then run 'sparklog job verify'"
    return Difference(DifferenceKind.UNREADABLE, store, None, "the chain to verify", str(error), advice=advice)
