"""Compaction while others change the same partition: what landed is counted, and the position moves in the end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from sparklog.maintenance.report import Compacted, JobReport, Outcome
from tests.maintenance.keyed_log import DictShuffle, KeyedLog, keyed
from tests.maintenance.maintained_log import DAY_MS, maintained


@pytest.fixture
def log() -> Iterator[KeyedLog]:
    yield from keyed(maintained(f"memory://{uuid.uuid4().hex}"))


def test_what_landed_is_reported_though_a_stretch_was_overtaken(log: KeyedLog) -> None:  # M: C-05
    """The other run compacts the old records only."""
    log.create(segment_bytes=700)
    now_ms = log.log.clock.at_ms
    for age, records in ((2, [("a", "1"), ("b", "2"), ("a", "3")]), (0, [("b", "4"), ("c", "5"), ("b", "6")])):
        log.append(*records, timestamp_ms=now_ms - age * DAY_MS)
        log.roll()
    others: list[JobReport] = []

    def compact_old() -> None:
        log.log.cluster.alter("t", config={"min.compaction.lag.ms": DAY_MS})
        others.append(log.compact())

    report = log.compact(shuffle=DictShuffle(compact_old))
    assert others[0].partitions[0].outcome is Outcome.DONE
    (row,) = report.partitions
    assert (row.outcome, row.messages[-1]) == (Outcome.OVERTAKEN, "1 of 2 rewrites took effect")
    assert "SWAP_REFUSED: " in row.messages[0]
    assert (report.done.objects, report.done.records) == (1, 2)
    assert row.done.size_bytes > 0
    assert isinstance(row.compacted, Compacted)
    assert (row.compacted.records_before, row.compacted.records_after, row.compacted.superseded) == (3, 2, 1)
    assert row.compacted.bytes_before > row.compacted.bytes_after == row.done.size_bytes
    assert log.text() == "1:b2 2:a3 4:c5 5:b6"
    assert log.cleaner is not None
    assert log.cleaner.position == 3
    log.check()


def test_a_run_that_is_overtaken_whole_did_nothing(log: KeyedLog) -> None:
    log.create(segment_bytes=700)
    for text in ("a1 b2 a3", "b4 c5 a6"):
        log.segment(text)
    report = log.compact(shuffle=DictShuffle(lambda: log.compact()))
    (row,) = report.partitions
    assert (row.outcome, row.done.objects, row.done.records, row.compacted) == (Outcome.OVERTAKEN, 0, 0, None)
