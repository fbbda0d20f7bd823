"""Decides on the reports of maintenance jobs: bounded, because every process reads every entry, and printable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sparklog.core.commands import ReportJob
from sparklog.core.config.key import shown
from sparklog.core.errors import InvalidInput
from sparklog.core.records import JobRan
from sparklog.core.state import ClusterState

MOST_JOBS: Final = 100  # whose last run the state remembers
MOST_REPORT_CHARACTERS: Final = 60_000
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,99}")
_INT64_END: Final = 1 << 63


def decide_report_job(state: ClusterState, command: ReportJob) -> JobRan:
    """Return the record of a run.

    Raises InvalidInput if the name, the times or the report are not legal. A report is a JSON object; each of its texts
    is printable, because it reaches terminals and pages.
    """
    if _NAME.fullmatch(command.job) is None:
        raise InvalidInput(f"wanted the name of a job, 1 to 100 of a-z 0-9 _ -, found {shown(command.job)}")
    if command.job not in state.jobs and len(state.jobs) >= MOST_JOBS:
        raise InvalidInput(f"the cluster remembers the last runs of {MOST_JOBS} jobs, found another job {command.job}")
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
