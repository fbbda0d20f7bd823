"""The reports of jobs: what others read in a terminal or on a page is checked before it is in the chain."""

from __future__ import annotations

import json

import pytest

from sparklog.core.commands import ReportJob
from sparklog.core.decide.job_reports import JOBS, MOST_REPORT_CHARACTERS
from sparklog.core.errors import InvalidInput
from tests.core.decided_log import DecidedLog


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (ReportJob("", 1, 2, 0, "{}"), "wanted one of the jobs"),
        (ReportJob("roll\x1b[2J", 1, 2, 0, "{}"), "wanted one of the jobs"),
        (ReportJob("roll\n", 1, 2, 0, "{}"), "wanted one of the jobs"),
        (ReportJob("x" * 101, 1, 2, 0, "{}"), "wanted one of the jobs"),
        (ReportJob("roll", -1, 2, 0, "{}"), "wanted times and a count"),
        (ReportJob("roll", 1, 1 << 63, 0, "{}"), "wanted times and a count"),
        (ReportJob("roll", 1, 2, -1, "{}"), "wanted times and a count"),
        (ReportJob("roll", 1, 2, 0, ""), "wanted a report in JSON"),
        (ReportJob("roll", 1, 2, 0, "{}}"), "wanted a report in JSON"),
        (ReportJob("roll", 1, 2, 0, "[" * 10_000 + "]" * 10_000), "wanted a report in JSON"),
        (ReportJob("roll", 1, 2, 0, '"{}"'), "a JSON object"),
        (ReportJob("roll", 1, 2, 0, json.dumps({"notes": ["a\0b"]})), "wanted printable texts"),
        (ReportJob("roll", 1, 2, 0, json.dumps({"notes": [{"a": "\x1b]8;;x"}]})), "wanted printable texts"),
        (ReportJob("roll", 1, 2, 0, json.dumps({"a\u202eb": 1}, ensure_ascii=False)), "wanted printable texts"),
        (ReportJob("roll", 1, 2, 0, json.dumps({"x": "y" * MOST_REPORT_CHARACTERS})), "at most 60,000 characters"),
    ],
)
def test_a_report_that_is_not_legal_is_refused(command: ReportJob, found: str) -> None:
    log = DecidedLog()
    with pytest.raises(InvalidInput) as raised:
        log.submit(command)
    assert found in raised.value.message
    assert raised.value.message.isprintable()
    assert not log.state.jobs


def test_no_name_takes_the_room_of_a_job_that_has_not_run_yet() -> None:
    """A right on one topic is enough to report, so what the state remembers is bounded by the names of jobs."""
    log = DecidedLog()
    for number in range(100):
        with pytest.raises(InvalidInput, match=r"wanted one of the jobs roll, .*, found 'x"):
            log.submit(ReportJob(f"x{number}", 0, 0, 0, "{}"))
    for job in JOBS:
        log.submit(ReportJob(job, 1, 2, 0, "{}"))
    assert set(log.state.jobs) == set(JOBS)
