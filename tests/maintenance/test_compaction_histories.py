"""Random histories of a compacted topic beside a model: what readers find is always right (C-01 to C-03)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.maintenance.report import Outcome
from tests.maintenance.keyed_log import TRIMMED, KeyedLog
from tests.maintenance.maintained_log import maintained

DELAY_MS = 1_000

RECORDS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from([None, "1", "2", "x" * 90])), min_size=1, max_size=6
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), RECORDS),
        st.tuples(st.just("append"), RECORDS),
        st.tuples(st.just("roll"), st.none()),
        st.tuples(st.just("compact"), st.booleans()),
        st.tuples(st.just("compact"), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from([DELAY_MS // 3, DELAY_MS])),
        st.tuples(st.just("delete"), st.floats(0, 1)),
    ),
    min_size=4,
    max_size=14,
)


SEGMENT_BYTES = st.sampled_from([700, 1_500, 1 << 20])
Steps = list[tuple[str, Any]]


class History:
    """Plays steps. `passed`: when a compaction first passed the tombstone at an offset."""

    def __init__(self, keyed: KeyedLog) -> None:
        self.keyed = keyed
        self.passed: dict[int, int] = {}

    def play(self, step: str, argument: Any) -> None:
        keyed, clock = self.keyed, self.keyed.log.clock
        match step:
            case "append":
                keyed.append(*argument)
            case "roll":
                keyed.roll()
            case "compact":
                report = keyed.compact(everything=argument)
                assert {row.outcome for row in report.partitions} <= {Outcome.DONE}, report.to_json()
                self.check_compacted()
            case "wait":
                clock.at_ms += argument
            case "delete":
                to = keyed.start + round((len(keyed.rows) - keyed.start) * argument)
                if to > keyed.start:
                    keyed.move_log_start(to)
        keyed.check()

    def check_compacted(self) -> None:
        keyed, now_ms = self.keyed, self.keyed.log.clock.at_ms
        position = keyed.cleaner.position if keyed.cleaner is not None else 0
        segments = [(start, end) for start, end in keyed.log.segments("t") if start >= keyed.start]
        whole_from = segments[0][0] if segments else position  # a segment that the log start cuts stays as it is
        found = keyed.read()
        keys = [key for offset, key, _ in found if whole_from <= offset < position]
        assert len(keys) == len(set(keys)), "each key at most once below the cleaner's position"
        last = {key: offset for offset, key, _ in keyed.rows}
        there = {offset for offset, _, _ in found}
        for offset, key, value in keyed.rows[keyed.start : position]:
            if value is not None or last[str(key)] != offset:
                continue
            passed_ms = self.passed.setdefault(offset, now_ms)
            if now_ms - passed_ms < DELAY_MS:
                assert offset in there, f"the tombstone at {offset} stays for its delay"


def play(steps: Steps, segment_bytes: int) -> None:
    for log in maintained(f"memory://{uuid.uuid4().hex}"):
        keyed = KeyedLog(log).create(**TRIMMED, segment_bytes=segment_bytes, delete_retention_ms=DELAY_MS)
        history = History(keyed)
        for step in steps:
            history.play(*step)
        for _ in range(2):  # the second run drops the tombstones that the first one passed
            keyed.roll()
            history.play("compact", True)
            log.clock.at_ms += DELAY_MS
        history.play("compact", True)
        tombstones = [row for row in keyed.read() if row[2] is None and row[0] >= keyed.start]
        cut = any(start < keyed.start for start, _ in log.segments("t"))
        assert len(tombstones) <= (len(keyed.read()) == 1) or cut, "tombstones go after their delay (C-03)"


@given(steps=STEPS, segment_bytes=SEGMENT_BYTES)
@settings(max_examples=20, deadline=None)
def test_readers_find_the_last_value_of_each_key(steps: Steps, segment_bytes: int) -> None:  # M: C-01 C-03
    play(steps, segment_bytes)


@pytest.mark.campaign
@given(steps=STEPS, segment_bytes=SEGMENT_BYTES)
@settings(max_examples=1_000, deadline=None)
def test_many_histories(steps: Steps, segment_bytes: int) -> None:
    play(steps, segment_bytes)
