"""Assignment of new partitions."""

from __future__ import annotations

import pytest

from sparklog.core.replicas import assign
from sparklog.core.types import StoreId

A, B, C = StoreId("a"), StoreId("b"), StoreId("c")


@pytest.mark.parametrize("first", [0, 1, 7])
def test_leaders_go_round_and_replicas_are_different(first: int) -> None:
    found = assign((A, B, C), 6, 2, first)
    assert sorted(each[0] for each in found) == [A, A, B, B, C, C]
    assert all(len(set(each)) == 2 for each in found)
