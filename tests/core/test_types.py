"""Ranges of offsets, and sums."""

from __future__ import annotations

import pytest

from sparklog.core.types import Offset, OffsetRange, total_records
from tests.core.decided_log import DecidedLog


def test_a_range_may_be_empty_and_never_runs_backwards() -> None:
    assert OffsetRange(Offset(3), Offset(3)).end == 3
    for start, end in ((3, 2), (-1, 2), (-2, -1)):
        with pytest.raises(ValueError, match=rf"0 <= start <= end, not \[{start}, {end}\)"):
            OffsetRange(Offset(start), Offset(end))


def test_records_of_slices_are_counted_before_and_after_they_got_offsets() -> None:
    log = DecidedLog()
    assert total_records([log.part(2), log.part(3)]) == 5
    log.append(4)
    assert total_records(log.slices()) == 4
    assert total_records([]) == 0
