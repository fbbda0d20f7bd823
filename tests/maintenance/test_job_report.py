"""Reports of jobs: sums, JSON, and the short form for the chain."""

from __future__ import annotations

import msgspec

from sparklog.core.commands import ReportJob
from sparklog.core.decide.job_reports import decide_report_job
from sparklog.maintenance.job_report import (
    FAILURE_COUNTS,
    DeletionResult,
    JobReport,
    PartitionResult,
    Work,
    WorkOutcome,
    ended,
    total,
)


def report(rows: tuple[PartitionResult, ...]) -> JobReport:
    planned = total(each.planned for each in rows)
    return JobReport("roll", "file:///c", False, 1, 2, 3, planned, Work(), 0, rows, DeletionResult(), 7, (), 0)


def test_work_adds_up() -> None:
    assert total([Work(1, 2, 3, 4), Work(10, 20, 30, 40)]) == Work(11, 22, 33, 44)
    assert total([]) == Work()


def test_json_calls_bytes_bytes() -> None:
    document = msgspec.json.decode(report((PartitionResult("t-0", "t", 0, "due", Work(1, 2, 3, 4)),)).to_json())
    assert document["planned"] == {"objects": 1, "records": 2, "bytes": 3, "requests": 4}
    assert document["partitions"][0]["outcome"] == "planned"


def test_the_record_in_the_chain_stays_small_whatever_fails() -> None:
    rows = tuple(
        PartitionResult(f"t-{each}", "t", each, "", Work(), outcome=WorkOutcome.FAILED, messages=("m" * 100,) * 50)
        for each in range(10_000)
    )
    text = report(rows).for_chain()
    assert len(text) < 100_000
    document = msgspec.json.decode(text)
    assert document["partitions"] == 10_000
    assert len(document["failures"]) == FAILURE_COUNTS[0]


def test_the_record_in_the_chain_is_legal_whatever_the_messages_are() -> None:
    hostile = ('"\\\x1b\u202e\0' * 5_000,) * 50
    rows = tuple(
        PartitionResult(f"t-{each}", "t", each, "", Work(), outcome=WorkOutcome.FAILED, messages=hostile)
        for each in range(200)
    )
    whole = report(rows)
    whole = msgspec.structs.replace(whole, notes=hostile, deletion=DeletionResult(failed=1, messages=hostile))
    text = whole.for_chain()
    assert decide_report_job(ReportJob("roll", 1, 2, 200, text)).report == text
    assert len(msgspec.json.decode(text)["failures"]) == 10


def test_a_failure_of_a_part_stays_and_each_message_is_said_once() -> None:
    row = PartitionResult("t-0", "t", 0, "due", Work(1))
    noted = row.noted(WorkOutcome.FAILED, "b is away").noted(WorkOutcome.DONE, "b is away", "a is full").noted(None)
    assert (noted.outcome, noted.messages) == (WorkOutcome.FAILED, ("b is away", "a is full"))
    overtaken = row.noted(None, "looked at").noted(WorkOutcome.OVERTAKEN)
    assert (overtaken.outcome, overtaken.messages) == (WorkOutcome.OVERTAKEN, ("looked at",))
    assert [part.outcome for part in ended([row, noted, overtaken])] == [
        WorkOutcome.DONE,
        WorkOutcome.FAILED,
        WorkOutcome.OVERTAKEN,
    ]
