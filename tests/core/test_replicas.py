"""High watermark and assignment."""

from __future__ import annotations

import pytest

from sparklog.core.replicas import assign, high_watermark
from sparklog.core.types import Offset, StoreId

A, B, C = StoreId("a"), StoreId("b"), StoreId("c")


# M: L-02
def test_the_high_watermark_is_the_smallest_log_end_in_the_isr() -> None:
    ends = {A: Offset(9), B: Offset(5), C: Offset(0)}
    assert [high_watermark(ends, isr) for isr in ([A], [A, B], [A, B, C])] == [9, 5, 0]


@pytest.mark.parametrize("first", [0, 1, 7])
def test_leaders_go_round_and_replicas_are_different(first: int) -> None:
    found = assign((A, B, C), 6, 2, first)
    assert sorted(each[0] for each in found) == [A, A, B, B, C, C]
    assert all(len(set(each)) == 2 for each in found)
