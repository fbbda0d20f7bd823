"""Find how far FLOOR may rise, by a binary search over the times of entries instead of reading them all.

Authors' clocks differ, so times need not ascend. That is harmless: age only chooses a position. Safety comes from the
FLOOR record itself, because writes that began before its position are refused.
"""

from __future__ import annotations

from typing import Final

from sparklog.chain.follow.stored_entries import stored_entries, stored_entry
from sparklog.core.types import EntryNumber
from sparklog.storage.object_store import ObjectStore

RECENT_ENTRIES: Final = 32


def newest_older_than(store: ObjectStore, floor: int, end: int, before_ms: int) -> EntryNumber:
    """Return the newest entry in (floor, end) that was written before `before_ms`, or `floor` if there is none.

    A command whose n0 is below that entry began before `before_ms`. A deleted entry counts as old. The search takes
    about log2(end - floor) requests.
    """
    low, high = floor, end
    while high - low > 1:
        middle = (low + high) // 2
        if _is_older(store, middle, before_ms):
            low = middle
        else:
            high = middle
    return EntryNumber(low)


def time_shown(store: ObjectStore, end: int, now_ms: int) -> int:
    """Return `now_ms`, or the oldest time in the last RECENT_ENTRIES entries before `end` if that is earlier.

    So the result is not in the future even if this process's clock is ahead.
    """
    recent = stored_entries(store, max(0, end - RECENT_ENTRIES), end)
    return min((now_ms, *(stored.entry.time_ms for stored in recent)))


def _is_older(store: ObjectStore, n: int, before_ms: int) -> bool:
    stored = stored_entry(store, n)
    return stored is None or stored.entry.time_ms < before_ms
