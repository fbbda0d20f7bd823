"""Decides on the reports of maintenance jobs: bounded, because every process reads every entry, and printable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sparklog.core.commands import ReportJob
from sparklog.core.config.key import shown
from sparklog.core.errors import InvalidInput
from sparklog.core.records import JobRan

# The jobs whose last run the state remembers: all that have a frame (maintenance/job_frame.py).
JOBS: Final = (
    *("roll", "compaction", "retention", "replication", "recovery", "verify", "vacuum"),
    *("materialize", "mirror", "mirror-verify"),  # of one topic, or of another cluster
)
MOST_REPORT_CHARACTERS: Final = 60_000
_INT64_END: Final = 1 << 63


def decide_report_job(command: ReportJob) -> JobRan:
    """Return the record of a run.

    Raises InvalidInput if the name, the times or the report are not legal. A report is a JSON object; each of its texts
    is printable, because it reaches terminals and pages.
    """
    if command.job not in JOBS:
        raise InvalidInput(f"wanted one of the jobs {', '.join(JOBS)}, found {shown(command.job)}")
    numbers = (command.started_ms, command.ended_ms, command.failed_partitions)
    if not all(0 <= number < _INT64_END for number in numbers):
        raise InvalidInput(f"job {command.job}: wanted times and a count from 0 to 2^63, found {numbers}")
    if len(command.report) > MOST_REPORT_CHARACTERS:
        raise InvalidInput(
            f"job {command.job}: wanted a report of at most {MOST_REPORT_CHARACTERS:,} characters, found "
            f"{len(command.report):,}"
        )
    try:
        report = msgspec.json.decode(command.report)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"job {command.job}: wanted a report in JSON, found another text") from error
    if not isinstance(report, dict):
        raise InvalidInput(f"job {command.job}: wanted a report that is a JSON object, found {shown(report)}")
    for text in _texts(report):
        if not text.isprintable():
            raise InvalidInput(f"job {command.job}: wanted printable texts in its report, found {shown(text)}")
    return JobRan(command.job, *numbers, command.report)


def _texts(document: Any) -> Iterator[str]:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value
