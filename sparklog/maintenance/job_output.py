"""The output of a job while it runs: its plan as a table, progress on long work, and a closing line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from sparklog.core.describe.readable import amount, counted, printable
from sparklog.host.clock import Clock
from sparklog.host.standard_streams import discard
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome

ROWS_SHOWN = 40
PROGRESS_EVERY_MS = 5_000
WIDTH = 140  # of output to a file


class JobOutput:
    """Writes to a console; the default is stderr, so that stdout stays free for a JSON document."""

    def __init__(self, console: Console | None, clock: Clock) -> None:
        self._console = console or stderr_console()
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
            self._say(f"{title}: nothing is due")
        if deletion.objects:
            self._say(
                f"to be deleted, their delay has passed: {counted(deletion.objects, 'object')}, "
                f"{amount(deletion.size_bytes)}, {counted(deletion.requests, 'request')}"
            )
        for note in notes:
            self._say(note)
        self._said = frozenset(notes)

    def progress(self, what: str, done: int, of: int) -> None:
        """Print a line of progress (`what`: `done` of `of`), at most one per PROGRESS_EVERY_MS."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._last_progress_ms >= PROGRESS_EVERY_MS:
            self._last_progress_ms = now_ms
            self._say(f"{what}: {done:,} of {of:,}")

    def show(self, table: Table) -> None:
        """Print a table of the job's results."""
        self._console.print(table)

    def end(self, report: JobReport) -> None:
        """Print the results of the job, and last a line with the work done.

        The results are the messages about partitions and deletions, and the notes that were not printed with the plan.
        """
        for row in report.partitions:
            if row.messages and row.outcome is not WorkOutcome.PLANNED:
                self._say(f"{row.place}: {row.outcome}: {'; '.join(row.messages)}")
        for message in (*report.deletion.messages, *(note for note in report.notes if note not in self._said)):
            self._say(message)
        done, deleted = report.done, report.deletion.done
        self._say(
            f"{report.job}: {counted(done.objects, 'object')}, {counted(done.records, 'record')}, "
            f"{amount(done.size_bytes)} done; "
            f"{counted(deleted.objects, 'retired object')} deleted ({amount(deleted.size_bytes)}); "
            f"{report.failed:,} failed; FLOOR is {report.floor}"
        )

    def _say(self, line: str) -> None:
        """Print one line without wrapping, so that a path in it can be copied whole."""
        self._console.print(printable(line), markup=False, soft_wrap=True)

    def _table(self, title: str, unit: str, results: Sequence[PartitionResult], planned: Work) -> None:
        table = Table(title=title, title_justify="left", show_footer=True)
        rest = len(results) - ROWS_SHOWN
        table.add_column("place", footer=f"and {rest:,} more" if rest > 0 else "all", overflow="fold")
        for name, value in ((unit, planned.objects), ("records", planned.records)):
            table.add_column(name, justify="right", footer=f"{value:,}")
        table.add_column("bytes", justify="right", footer=amount(planned.size_bytes))
        table.add_column("requests", justify="right", footer=f"{planned.requests:,}")
        table.add_column("why", overflow="fold")
        for row in results[:ROWS_SHOWN]:
            work = row.planned
            table.add_row(
                row.place,
                f"{work.objects:,}",
                f"{work.records:,}",
                amount(work.size_bytes),
                f"{work.requests:,}",
                printable(row.reason),
            )
        self._console.print(table)


class _PatientConsole(Console):
    """A console that falls silent when nothing reads its output any more (a broken pipe).

    Rich's own console would end the process in the middle of the job.
    """

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(self.file)  # type: ignore[arg-type]


def plan_console(*, dry_run: bool, stdout_taken: bool) -> Console | None:
    """Return a console on stdout for the plan of a dry run, unless the report goes to stdout (`stdout_taken`).

    In all other cases return None: the plan is then printed to stderr.
    """
    return _console(stderr=False) if dry_run and not stdout_taken else None


def stderr_console() -> Console:
    """Return the console for messages and progress: stderr.

    If stderr is not a terminal, tables are WIDTH characters wide.
    """
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = _PatientConsole(stderr=stderr, highlight=False)
    return console if console.is_terminal else _PatientConsole(stderr=stderr, highlight=False, width=WIDTH)
