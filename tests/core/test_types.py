"""Ranges of offsets."""

from __future__ import annotations

import pytest

from sparklog.core.types import Offset, OffsetRange


def test_a_range_may_be_empty_and_never_runs_backwards() -> None:
    assert OffsetRange(Offset(3), Offset(3)).end == 3
    for start, end in ((3, 2), (-1, 2), (-2, -1)):
        with pytest.raises(ValueError, match=rf"0 <= start <= end, found \[{start}, {end}\)"):
            OffsetRange(Offset(start), Offset(end))
