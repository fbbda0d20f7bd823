"""The planned, done and failed work of a maintenance job, as values and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from sparklog.core.decide.job_reports import MOST_REPORT_CHARACTERS
from sparklog.core.describe.readable import amount, counted, one_line_repr, printable

FAILURE_COUNTS = (100, 30, 10, 0)  # a report in the chain has the first of these numbers of failures that fits
MESSAGES_OF_FAILURE, MESSAGES, MESSAGE_CHARACTERS = 3, 10, 500  # in the chain


class Work(msgspec.Struct, frozen=True):
    """An amount of work: objects, records, stored bytes, requests to stores.

    `objects` counts what the job's `unit` says: objects, segments or slices.
    """

    objects: int = 0
    records: int = 0
    size_bytes: int = msgspec.field(default=0, name="bytes")
    requests: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.objects + other.objects,
            self.records + other.records,
            self.size_bytes + other.size_bytes,
            self.requests + other.requests,
        )


def total(works: Iterable[Work]) -> Work:
    """Return the sum of these amounts of work."""
    whole = Work()
    for work in works:
        whole += work
    return whole


class WorkOutcome(StrEnum):
    """The outcome of the work on one partition."""

    PLANNED = "planned"  # only planned, with --dry-run
    DONE = "done"
    # Overtaken or postponed work changed nothing. If a partition had several swaps, the others may have taken effect.
    OVERTAKEN = "overtaken"  # another process changed the same segments first; nothing is wrong
    POSTPONED = "postponed"  # its replicas can't take the work now; a later run does it
    FAILED = "failed"


class Compacted(msgspec.Struct, frozen=True):
    """The records and stored bytes of a partition before and after a compaction, and the numbers of dropped records.

    `superseded`: dropped because a later record has the same key. `tombstones`: dropped because they were older than
    `delete.retention.ms`. `keyless`: dropped because they have no key; they are from before the topic was compacted.
    """

    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    superseded: int = 0
    tombstones: int = 0
    keyless: int = 0

    def then(self, later: Compacted) -> Compacted:
        """Combine this compaction with `later`, which began with the records that this one left."""
        return Compacted(
            self.records_before - self.records_after + later.records_before,
            later.records_after,
            self.bytes_before - self.bytes_after + later.bytes_before,
            later.bytes_after,
            self.superseded + later.superseded,
            self.tombstones + later.tombstones,
            self.keyless + later.keyless,
        )


class PartitionResult(msgspec.Struct, frozen=True):
    """A row of a job's plan or report: the work on one partition, on one replica, or on another `place`.

    Vacuum does not know the partitions of objects, so its places are prefixes of keys.
    """

    place: str
    topic: str | None
    partition: int | None
    reason: str
    planned: Work
    done: Work = Work()
    outcome: WorkOutcome = WorkOutcome.PLANNED
    messages: tuple[str, ...] = ()
    is_metadata: bool = False  # vacuum: it is about the chain itself, not about objects with records
    compacted: Compacted | None = None

    def noted(self, outcome: WorkOutcome | None, *messages: str) -> PartitionResult:
        """Return the row with this outcome (None: unchanged), and with these messages added, each once.

        A row that has failed stays failed.
        """
        kept = outcome is None or self.outcome is WorkOutcome.FAILED
        more = tuple(dict.fromkeys((*self.messages, *messages)))
        return msgspec.structs.replace(self, outcome=self.outcome if kept else outcome, messages=more)


def ended(rows: Iterable[PartitionResult]) -> list[PartitionResult]:
    """Return all rows, as they are reported at the end of a run: those that are still PLANNED become DONE."""
    return [row.noted(WorkOutcome.DONE) if row.outcome is WorkOutcome.PLANNED else row for row in rows]


class DeletionResult(msgspec.Struct, frozen=True):
    """The deletion of retired objects whose delay has passed: planned work, work done, and failures."""

    planned: Work = Work()
    done: Work = Work()
    failed: int = 0
    messages: tuple[str, ...] = ()


class JobReport(msgspec.Struct, frozen=True):
    """One run of a maintenance job. `exit_code` is 1 if any partition or deletion failed, else 0.

    It is also 1 if the report could not be recorded in the chain, except for a job that only reads. `now_ms` is the
    time from which ages were counted. `floor` is FLOOR at the end; with --dry-run, the position at which it should be.
    """

    job: str
    cluster: str
    dry_run: bool
    now_ms: int
    started_ms: int
    ended_ms: int
    planned: Work
    done: Work
    failed: int
    partitions: tuple[PartitionResult, ...]
    deletion: DeletionResult
    floor: int
    notes: tuple[str, ...]
    exit_code: int

    def __repr__(self) -> str:
        work = self.planned if self.dry_run else self.done
        amounts = counted(work.objects, "object"), counted(work.records, "record"), amount(work.size_bytes)
        return one_line_repr(
            f"{self.job} {'planned' if self.dry_run else 'done'}:",
            counted(len(self.partitions), "partition"),
            *amounts,
            f"{self.failed} failed",
        )

    def to_json(self) -> str:
        """The whole report, for --report and --format json."""
        return msgspec.json.format(msgspec.json.encode(self)).decode()

    def for_chain(self) -> str:
        """Return the totals and the first failures as JSON, to be recorded in the chain.

        It is kept small, because every process reads every entry. Its texts are cut and printable.
        """
        texts = (self._for_chain(failures) for failures in FAILURE_COUNTS)
        return next((text for text in texts if len(text) <= MOST_REPORT_CHARACTERS), "{}")

    def _for_chain(self, failures: int) -> str:
        """As `for_chain`, with the first `failures` failures; it may be too long."""
        failed = [row for row in self.partitions if row.outcome is WorkOutcome.FAILED]
        document = {
            "dry_run": self.dry_run,
            "now_ms": self.now_ms,
            "planned": self.planned,
            "metadata": total(row.planned for row in self.partitions if row.is_metadata),
            "metadata_done": total(row.done for row in self.partitions if row.is_metadata),
            "done": self.done,
            "failed": self.failed,
            "partitions": len(self.partitions),
            "failures": [
                {"place": row.place, "messages": _brief(row.messages, MESSAGES_OF_FAILURE)} for row in failed[:failures]
            ],
            "deletion": msgspec.structs.replace(
                self.deletion, messages=tuple(_brief(self.deletion.messages, MESSAGES))
            ),
            "floor": self.floor,
            "notes": _brief(self.notes, MESSAGES),
        }
        return msgspec.json.encode(document).decode()


def _brief(messages: Sequence[str], most: int) -> list[str]:
    return [printable(message[:MESSAGE_CHARACTERS])[:MESSAGE_CHARACTERS] for message in messages[:most]]
