"""Runs a job as a process of its own: by `job_child.py`, or by a command from the configuration, like

    spark-submit --master yarn /opt/sparklog/jobs/{job}.py --cluster {cluster} --report {report}

A separate process can be killed, and its memory is freed with it. No shell is involved: the text is split into words
once, then {job}, {cluster} and {report} are replaced in them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from sparklog.client.error_line import one_line
from sparklog.core.config.storage import NO_SETTINGS, StorageSettings
from sparklog.core.describe.readable import amount, counted, duration
from sparklog.core.errors import InvalidInput
from sparklog.maintenance.job_child import SETTINGS_ON_STDIN
from sparklog.maintenance.job_report import JobReport, WorkOutcome

LONGEST_RUN_MS: Final = 6 * 3_600_000
GRACE_S: Final = 10.0  # between SIGTERM and SIGKILL
LONGEST_ERROR: Final = 500  # characters
_PLACES: Final = ("job", "cluster", "report")
_NEEDED: Final = ("job", "cluster")

LOCAL: Final = (sys.executable, "-m", "sparklog.maintenance.job_child", "{job}", "{cluster}", "{report}")


class JobEnd(msgspec.Struct, frozen=True):
    """The result of a run. `error`: the failure, or None. `broke_off`: the run ended without its report.

    `report` is None if the run broke off, and after a successful run of a command without the placeholder {report}.
    """

    report: JobReport | None = None
    error: str | None = None
    broke_off: bool = False

    @property
    def did_something(self) -> bool:
        """True if anything was due: work on a partition, or retired objects to delete. False without a report."""
        report = self.report
        return report is not None and bool(report.partitions or report.deletion.planned.objects)

    @property
    def summary(self) -> str:
        """A short summary of the work done."""
        if self.report is None:
            return "done"
        if not self.did_something:
            return "nothing was due"
        done, deleted = self.report.done, self.report.deletion.done
        words = f"{counted(done.records, 'record')}, {amount(done.size_bytes)} in {counted(done.objects, 'object')}"
        return f"{words}; {counted(deleted.objects, 'retired object')} deleted"


def command_words(text: str) -> tuple[str, ...]:
    """Split a command template into words. Raises InvalidInput for open quotes, or wrong or missing {placeholders}."""
    where = f"the command for jobs, {text!r}"
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise InvalidInput(f"{where}: wanted words, maybe quoted, found {str(error).lower()}") from error
    places = {place for word in words for place in re.findall(r"\{(\w*)\}", word)}
    if unknown := sorted(places - set(_PLACES)):
        raise InvalidInput(f"{where}: wanted {{job}}, {{cluster}}, {{report}}, found {{{unknown[0]}}}")
    if missing := [place for place in _NEEDED if place not in places]:
        raise InvalidInput(f"{where}: wanted {{{missing[0]}}} in it, found none")
    return words


class JobCommand:
    """Runs jobs of the cluster whose metadata is at `cluster`. `words` are a template from `command_words`.

    A run that takes longer than `longest_run_ms` is stopped, and counts as broken off. `settings` are given to the jobs
    of LOCAL only, through a pipe: another command may run on another machine, and has a token of its own.
    """

    def __init__(
        self,
        cluster: str,
        words: Sequence[str] = LOCAL,
        longest_run_ms: int = LONGEST_RUN_MS,
        settings: StorageSettings = NO_SETTINGS,
    ) -> None:
        self._cluster = cluster
        self._words = words
        self._first_line = msgspec.json.encode(settings) + b"\n" if words == LOCAL else b""
        self._announced = {SETTINGS_ON_STDIN: "1"} if words == LOCAL else {}
        self._longest_run_ms = longest_run_ms

    async def run(self, job: str) -> JobEnd:
        """Run the job to its end, and return the result. If the caller is cancelled, first end the job's processes."""
        with tempfile.TemporaryDirectory(prefix="sparklog-job-") as folder:
            report, output = Path(folder) / f"{job}.json", Path(folder) / "output"
            words = self._filled(job, report)
            try:
                code = await self._run(words, output)
            except TimeoutError:
                return _broke_off(f"it took longer than {duration(self._longest_run_ms)}, and was stopped")
            except OSError as error:
                return _broke_off(f"{words[0]} can't be started: {error.strerror or error}")
            return await asyncio.to_thread(_end, code, report, output, reports=self._reports)

    @property
    def _reports(self) -> bool:
        return any("{report}" in word for word in self._words)

    def _filled(self, job: str, report: Path) -> list[str]:
        values = {"job": job, "cluster": self._cluster, "report": str(report)}
        return [re.sub(r"\{(\w+)\}", lambda place: values[place[1]], word) for word in self._words]

    async def _run(self, words: Sequence[str], output: Path) -> int:
        """Run the command with its output in the file `output`, and return its exit code.

        Stdin is a pipe from this process, so it is closed when this process ends, for any reason. Raises TimeoutError
        after `longest_run_ms`, and OSError if the command can't be started.
        """
        with output.open("wb") as file:
            starting = asyncio.ensure_future(
                asyncio.create_subprocess_exec(
                    *words,
                    env={**os.environ, **self._announced},
                    stdin=subprocess.PIPE,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
            try:
                process = await asyncio.shield(starting)
            except asyncio.CancelledError:  # asyncio would end only the process, and not its children
                with suppress(OSError):
                    await _stopped(await starting)
                raise
        assert process.stdin is not None
        with suppress(OSError, RuntimeError):  # uvloop's error if the process has ended: its output says why
            process.stdin.write(self._first_line)  # the pipe has room for it
        try:
            async with asyncio.timeout(self._longest_run_ms / 1000):
                return await process.wait()
        finally:
            await _stopped(process)


async def _stopped(process: asyncio.subprocess.Process) -> None:
    """End the process and its children, which are in its group: first with SIGTERM, then with SIGKILL.

    Does nothing more once the process itself has ended.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):  # it may have just ended
            os.killpg(process.pid, number)
        try:
            await asyncio.wait_for(process.wait(), GRACE_S)
        except TimeoutError:
            continue


def _end(code: int, report_file: Path, output: Path, *, reports: bool) -> JobEnd:
    if not reports and code == 0:
        return JobEnd()
    try:
        report = msgspec.json.decode(report_file.read_bytes(), type=JobReport)
    except (OSError, msgspec.DecodeError):
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        last = _last_line(output)
        return _broke_off(f"it ended with {how} and without a report{': ' if last else ''}{last}")
    return JobEnd(report, _failures(report) if report.exit_code or code else None)


def _failures(report: JobReport) -> str:
    """The number of failed parts, with the reason of the first failure."""
    failed = [row for row in report.partitions if row.outcome is WorkOutcome.FAILED]
    reasons = [f"{row.place}: {message}" for row in failed for message in row.messages]
    reasons += [*report.deletion.messages, *report.notes]
    what = f"{report.failed + report.deletion.failed} parts failed"
    return _short(f"{what}; {reasons[0]}" if reasons else what)


def _broke_off(error: str) -> JobEnd:
    return JobEnd(error=_short(error), broke_off=True)


def _last_line(output: Path) -> str:
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]}…"
