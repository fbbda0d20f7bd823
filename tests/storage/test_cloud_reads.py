"""Reads of one object by several requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparklog.core.errors import Damaged, StoreUnavailable
from sparklog.storage.cloud.cloud import ObjectPart
from sparklog.storage.cloud.reads import _PIECE_BYTES, read_ranges, read_whole

PIECE = _PIECE_BYTES


def shrunk_behind(at: int) -> Callable[[int, int], ObjectPart]:
    """Reads of an object that has 3 pieces, but only `at` bytes for requests behind these."""

    def read(start: int, end: int) -> ObjectPart:
        size = 3 * PIECE if start < at else at
        return ObjectPart(bytes(max(0, min(end, size) - start)), size, "1")

    return read


def test_an_object_that_is_shorter_for_one_of_the_requests_is_damaged_not_padded() -> None:
    read = shrunk_behind(2 * PIECE)
    with pytest.raises(Damaged, match=f"found {2 * PIECE}"):
        read_whole(read, "a")
    for ranges in ([(0, 3 * PIECE)], [(0, 1), (2 * PIECE, 2 * PIECE + 1)]):
        with pytest.raises(Damaged, match=f"it ends at byte {2 * PIECE}"):
            read_ranges(read, "a", ranges, lambda: 0)


def test_an_object_that_is_replaced_by_one_of_its_size_is_not_mixed_with_it() -> None:
    def read(start: int, end: int) -> ObjectPart:
        return ObjectPart(bytes(min(end, 3 * PIECE) - start), 3 * PIECE, "old" if start < 2 * PIECE else "new")

    with pytest.raises(StoreUnavailable, match="another object took its place"):
        read_whole(read, "a")
    for ranges in ([(0, 3 * PIECE)], [(0, 1), (2 * PIECE, 2 * PIECE + 1)]):
        with pytest.raises(StoreUnavailable, match="another object took its place"):
            read_ranges(read, "a", ranges, lambda: 0)
