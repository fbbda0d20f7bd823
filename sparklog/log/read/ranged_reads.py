"""Plan the byte ranges to read for the batches of a slice: neighbouring batches in one read of about 8 MiB."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple

import numpy as np

from sparklog.log.index import Index

RANGED_READ_BYTES: Final = 8 << 20


class RangedRead(NamedTuple):
    """One read of the bytes [start, end) of an object, which hold the batches [begin, stop) of its index."""

    begin: int
    stop: int
    start: int
    end: int


def ranged_reads(index: Index, begin: int, stop: int) -> list[RangedRead]:
    """The reads for batches [begin, stop). A read of more than one batch has at most `RANGED_READ_BYTES`."""
    ends = index.position + index.length
    reads = []
    while begin < stop:
        start = int(index.position[begin])
        full = int(np.searchsorted(ends, start + RANGED_READ_BYTES, side="right"))
        upto = min(max(full, begin + 1), stop)
        reads.append(RangedRead(begin, upto, start, int(ends[upto - 1])))
        begin = upto
    return reads


def allowed(reads: Sequence[RangedRead], most_bytes: int) -> list[RangedRead]:
    """The reads before the first batch that has more than `most_bytes` as stored."""
    most_bytes = max(most_bytes, RANGED_READ_BYTES)
    return list(takewhile(lambda read: read.end - read.start <= most_bytes, reads))
