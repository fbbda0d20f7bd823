"""The reports of jobs: what others read in a terminal or on a page is checked before it is in the chain."""

from __future__ import annotations

import json

import pytest

from sparklog.core.commands import ReportJob
from sparklog.core.decide.maintenance import MOST_JOBS, MOST_REPORT_CHARACTERS
from sparklog.core.errors import InvalidInput
from tests.core.decided_log import DecidedLog


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (ReportJob("", 1, 2, 0, "{}"), "wanted the name of a job"),
        (ReportJob("roll\x1b[2J", 1, 2, 0, "{}"), "wanted the name of a job"),
        (ReportJob("roll\n", 1, 2, 0, "{}"), "wanted the name of a job"),
        (ReportJob("x" * 101, 1, 2, 0, "{}"), "wanted the name of a job"),
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


def test_only_so_many_jobs_are_remembered() -> None:
    log = DecidedLog()
    for number in (*range(MOST_JOBS), 7):
        log.submit(ReportJob(f"job-{number}", 1, 2, 0, "{}"))
    with pytest.raises(InvalidInput, match="remembers the last runs of 100 jobs, found another job one-more"):
        log.submit(ReportJob("one-more", 1, 2, 0, "{}"))
