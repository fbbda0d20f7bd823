"""The output of a job while it runs: its plan as a table, progress on long work, and a closing line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from sparklog.core.describe.readable import amount, counted, printable, text_table
from sparklog.host.clock import Clock
from sparklog.host.standard_streams import flush, print_to
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome

ROWS_SHOWN = 40
PROGRESS_EVERY_MS = 5_000


class JobOutput:
    """Writes to a stream; the default is stderr, so that stdout stays free for a JSON document.

    If the stream's reader has left, or there is no stderr, the output is discarded, and the job continues.
    """

    def __init__(self, console: TextIO | None, clock: Clock) -> None:
        self._console: TextIO | None = console or sys.stderr  # None: the process has no stderr
        self._clock = clock
        self._last_progress_ms = clock.monotonic_ms()
        self._said: frozenset[str] = frozenset()

    def plan(
        self,
        title: str,
        unit: str,
        results: Sequence[PartitionResult],
        planned: Work,
        deletion: Work,
        notes: Sequence[str],
    ) -> None:
        """Print the plan: a row for each of the first ROWS_SHOWN partitions, the sums, the deletions, and the notes."""
        if results:
            self._table(title, unit, results, planned)
        else:
            self.say(f"{title}: nothing is due")
        if deletion.objects:
            self.say(
                f"to be deleted, their delay has passed: {counted(deletion.objects, 'object')}, "
                f"{amount(deletion.size_bytes)}, {counted(deletion.requests, 'request')}"
            )
        for note in notes:
            self.say(note)
        self._said = frozenset(notes)

    def progress(self, what: str, done: int, of: int) -> None:
        """Print a line of progress (`what`: `done` of `of`), at most one per PROGRESS_EVERY_MS."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._last_progress_ms >= PROGRESS_EVERY_MS:
            self._last_progress_ms = now_ms
            self.say(f"{what}: {done:,} of {of:,}")

    def say(self, line: str) -> None:
        """Print one line."""
        self._print(printable(line))

    def end(self, report: JobReport) -> None:
        """Print the results of the job, and last a line with the work done, also of the deletion if something was due.

        The results are the messages about partitions and deletions, and the notes that were not printed with the plan.
        """
        for row in report.partitions:
            if row.messages and row.outcome is not WorkOutcome.PLANNED:
                self.say(f"{row.place}: {row.outcome}: {'; '.join(row.messages)}")
        for message in (*report.deletion.messages, *(note for note in report.notes if note not in self._said)):
            self.say(message)
        done, deleted = report.done, report.deletion.done
        work = [
            f"{report.job}: {counted(done.objects, 'object')}, {counted(done.records, 'record')}, "
            f"{amount(done.size_bytes)} done"
        ]
        if report.deletion.planned.objects:
            work += [f"{counted(deleted.objects, 'retired object')} deleted ({amount(deleted.size_bytes)})"]
            work += [f"FLOOR is {report.floor}"]
        self.say("; ".join([*work, f"{report.failed:,} failed"]))

    def _table(self, title: str, unit: str, results: Sequence[PartitionResult], planned: Work) -> None:
        def row(place: str, work: Work, why: str) -> dict[str, object]:
            amounts = {unit: work.objects, "records": work.records, "planned_bytes": work.size_bytes}
            return {"place": place, **amounts, "requests": work.requests, "why": why}

        rest = len(results) - ROWS_SHOWN
        rows = [row(result.place, result.planned, result.reason) for result in results[:ROWS_SHOWN]]
        self.say(title)
        self._print(text_table(rows, row(f"and {rest:,} more" if rest > 0 else "all", planned, "")))

    def _print(self, text: str) -> None:
        if self._console is not None:
            print_to(self._console, text)
            flush(self._console)
