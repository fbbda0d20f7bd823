"""Compaction while others change the same partition: what landed is counted, and deletions do not hold it up."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import pytest

from sparklog.maintenance.job_report import Compacted, JobReport, WorkOutcome
from tests.maintenance.keyed_log import TRIMMED, DictShuffle, KeyedLog, keyed
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
    assert others[0].partitions[0].outcome is WorkOutcome.DONE
    (row,) = report.partitions
    assert (row.outcome, row.messages[-1]) == (WorkOutcome.OVERTAKEN, "1 of 2 rewrites took effect")
    assert "SWAP_REFUSED: " in row.messages[0]
    assert report.done.records == 2
    assert row.done.size_bytes > 0
    assert isinstance(row.compacted, Compacted)
    assert (row.compacted.records_before, row.compacted.records_after, row.compacted.superseded) == (3, 2, 1)
    assert row.compacted.bytes_after == row.done.size_bytes
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
    assert (row.outcome, row.done.objects, row.done.records, row.compacted) == (WorkOutcome.OVERTAKEN, 0, 0, None)


# ---- beside deletions -----------------------------------------------------------------------------------


@dataclass
class Once:
    """Does it the first time it is called."""

    act: Callable[[], object]
    done: bool = False

    def __call__(self) -> None:
        if not self.done:
            self.done = True
            self.act()


def segments(log: KeyedLog, *texts: str) -> None:
    for text in texts:
        log.segment(text)


# M: C-02 R-05
def test_beside_deletions_in_every_run_the_position_moves_in_every_run(log: KeyedLog) -> None:
    """Small segments are one stretch, of which each run loses the first segment before its swap."""
    log.create(**TRIMMED, delete_retention_ms=1_000_000)
    segments(log, "x1 a1", "a2 b2")
    for round_ in range(4):
        segments(log, f"a{round_} b{round_}", f"c{round_} a")
        first = log.log.segments("t")[0]
        report = log.compact(everything=False, shuffle=DictShuffle(Once(lambda to=first[1]: log.move_log_start(to))))  # type: ignore[misc]
        (row,) = report.partitions
        assert (row.outcome, report.exit_code) == (WorkOutcome.DONE, 0), row.messages
        assert "0 of 1 rewrites took effect" in row.messages
        assert log.cleaner is not None
        assert log.cleaner.position == len(log.rows)
        log.check()
    assert log.compact(everything=False).partitions == (), "nothing is due"


# M: C-02 R-05
def test_what_is_deleted_whole_needs_no_swap(log: KeyedLog) -> None:
    """Each segment is a stretch. The first goes every time, however often the run would plan again."""
    log.create(**TRIMMED, segment_bytes=700)
    segments(log, "a1 b2 c3", "a4 b5 d6", "a7 b8 e9")
    plans = []

    def delete_first() -> None:
        plans.append(len(plans))
        log.move_log_start(3 * len(plans))

    report = log.compact(shuffle=DictShuffle(delete_first))
    (row,) = report.partitions
    assert (row.outcome, plans) == (WorkOutcome.DONE, [0])
    assert "SWAP_REFUSED: a rewrite of t-0 begins at offset 0, but its log start is now 3" in row.messages[0]
    assert log.cleaner is not None
    assert log.cleaner.position == 9
    assert log.text() == "5:d6 6:a7 7:b8 8:e9"
    log.check()


# M: C-02 C-03 R-05
def test_a_stretch_that_is_deleted_in_part_every_time_does_not_count_as_cleaned(log: KeyedLog) -> None:
    """a1 stays, so the tombstone that deletes it stays, too. A run that is left alone does what is left to do."""
    log.create(**TRIMMED, segment_bytes=5_000)
    segments(log, "u1", "v1", "w1", "x1", "y1", "a1", " ".join(["a", *(f"k{each}" for each in range(200))]))
    starts = iter(range(1, 5))
    shuffle = DictShuffle(lambda: log.move_log_start(next(starts)))
    report = log.compact(shuffle=shuffle)
    (row,) = report.partitions
    assert (row.outcome, report.exit_code, next(starts)) == (WorkOutcome.OVERTAKEN, 0, 4)
    assert log.cleaner is None
    for _ in range(3):
        log.log.clock.at_ms += 1
        assert "a1" in log.text() or "5:" not in log.text()
        log.check()
        assert log.compact().exit_code == 0
    log.check()
    assert log.cleaner is not None
    assert log.cleaner.position == len(log.rows)
    assert ":a " not in log.text()


@pytest.mark.parametrize("seed", range(6))
def test_random_deletions_beside_every_run_hold_it_up_in_no_run(log: KeyedLog, seed: int) -> None:  # M: C-01 C-02 R-05
    """Against the model, in the middle of each run the log start rises to anywhere, also behind the cleaner."""
    dice = Random(seed)
    log.create(**TRIMMED, segment_bytes=dice.choice([700, 3_000, 1 << 20]), delete_retention_ms=dice.choice([0, 3]))
    for _ in range(8):
        for _ in range(dice.randint(1, 3)):
            last = len(log.rows)
            keys = [dice.choice("abcdefgh") for _ in range(dice.randint(1, 6))]
            log.segment(" ".join(key + dice.choice(["", "1", "2"]) for key in keys))
        to = dice.randint(log.start, last)
        report = log.compact(shuffle=DictShuffle(Once(lambda to=to: log.move_log_start(to))))  # type: ignore[misc]
        assert report.exit_code == 0
        log.check()
        assert log.cleaner is not None, report.to_json()
        assert log.cleaner.position == len(log.rows)
        log.log.clock.at_ms += dice.randint(0, 2)
    log.move_log_start(len(log.rows) - 1)
    log.segment("z1")
    for _ in range(3):
        log.log.clock.at_ms += 3
        log.compact()
        log.check()
