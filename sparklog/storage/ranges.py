"""Ranged reads from servers: the ranges that go into one request, and the memory to read into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_GAP_BYTES: Final = 64 * 1024  # reading this much in vain costs less than another request
_SMALL_BYTES: Final = 256 * 1024


def united(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges in ascending order; those that overlap or are at most 64 KiB apart are merged."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1] + _GAP_BYTES:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def new_memory(size_bytes: int) -> memoryview:
    """Return memory to read into. Large memory comes from Arrow's pool, which reuses pages.

    Zeroing new pages would cost as much as the read.
    """
    if size_bytes <= _SMALL_BYTES:
        return memoryview(bytearray(size_bytes))
    import pyarrow as pa

    return memoryview(pa.allocate_buffer(size_bytes)).cast("B")
