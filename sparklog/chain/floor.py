"""How far FLOOR may rise: found by a binary search over the times of entries, not by reading all of them.

Clocks of authors differ, so times need not ascend. That is harmless: age only chooses a position, and safety comes
from the FLOOR record itself.
"""

from __future__ import annotations

from sparklog.chain.stored_entries import read_entry
from sparklog.core.types import EntryNumber
from sparklog.storage.object_store import ObjectStore


def newest_older_than(store: ObjectStore, floor: int, end: int, before_ms: int) -> EntryNumber:
    """The newest entry of [floor, end) that was written before `before_ms`; `floor` if there is none after it.

    Whoever had not read that entry when it began, began longer ago than that. An entry that is gone is an old one.
    Costs about log2(end - floor) requests.
    """
    low, high = floor, end
    while high - low > 1:
        middle = (low + high) // 2
        if _is_older(store, middle, before_ms):
            low = middle
        else:
            high = middle
    return EntryNumber(low)


def _is_older(store: ObjectStore, n: int, before_ms: int) -> bool:
    found = read_entry(store, n)
    return found is None or found.entry.time_ms < before_ms
