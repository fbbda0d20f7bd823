"""Cuts a range of offsets into pieces that are small enough to read at once, from either end of the range."""

from __future__ import annotations

from typing import Final

import numpy as np

from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, OffsetRange, TopicPartition

MOST_SLICES: Final = 256  # each may be a request to a slow store


def next_piece(
    state: ClusterState,
    key: TopicPartition,
    rest: OffsetRange,
    most_offsets: int,
    most_bytes: int,
    *,
    down: bool,
) -> OffsetRange:
    """Return the first piece of `rest`; if `down` is true, the last piece.

    The piece has at least one offset, at most `most_offsets`, at most about `most_bytes` stored bytes, and offsets of
    at most MOST_SLICES slices. The bytes of a slice count as evenly spread over its offsets. If no slice has offsets in
    the piece, it is longer: it covers the whole gap, for example that of a mirror topic that was promoted.
    """
    if down:
        piece = OffsetRange(Offset(max(rest.start, rest.end - most_offsets)), rest.end)
    else:
        piece = OffsetRange(rest.start, Offset(min(rest.end, rest.start + most_offsets)))
    columns = state.slices.find(key, piece).columns
    if not len(columns["start"]):
        return _gap(state, key, rest, most_offsets, down=down)
    starts, ends = np.maximum(columns["start"], piece.start), np.minimum(columns["end"], piece.end)
    whole = columns["end"] - columns["start"]
    shares = columns["length"].astype(np.float64) * (ends - starts) / whole
    if down:
        starts, ends, shares = starts[::-1], ends[::-1], shares[::-1]
    fits = min(int(np.searchsorted(np.cumsum(shares), most_bytes, side="right")), MOST_SLICES)
    if fits == len(shares):
        return piece
    if fits == 0:  # a part of the first slice
        part = max(1, int(float(ends[0] - starts[0]) * most_bytes / shares[0]))
        if down:
            return OffsetRange(Offset(max(piece.start, int(ends[0]) - part)), piece.end)
        return OffsetRange(piece.start, Offset(min(piece.end, int(starts[0]) + part)))
    if down:
        return OffsetRange(Offset(int(starts[fits - 1])), piece.end)
    return OffsetRange(piece.start, Offset(int(ends[fits - 1])))


def _gap(state: ClusterState, key: TopicPartition, rest: OffsetRange, width: int, *, down: bool) -> OffsetRange:
    """Return the gap with which `rest` begins, or ends if `down` is true: all of `rest` if it has no slices."""
    while True:
        if down:
            looked = OffsetRange(Offset(max(rest.start, rest.end - width)), rest.end)
        else:
            looked = OffsetRange(rest.start, Offset(min(rest.end, rest.start + width)))
        columns = state.slices.find(key, looked).columns
        if len(columns["start"]):
            if down:
                return OffsetRange(Offset(int(columns["end"][-1])), rest.end)
            return OffsetRange(rest.start, Offset(int(columns["start"][0])))
        if looked == rest:
            return rest
        width *= 2
