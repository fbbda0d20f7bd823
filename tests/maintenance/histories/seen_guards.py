"""The guards of `tests/guards/` that a history misses when they are gone, each with the seed of one that shows it."""

from __future__ import annotations

from typing import Final

# If the histories change, look for other seeds: `python -m tests.maintenance.histories --seeds 0-40 --guards NAME,…`.
SEEN: Final = {
    "tombstone-delay": 1,
    "orphan-floor": 15,
    "orphan-named": 1,
    "old-mark-first": 0,
    "compaction-spare": 0,
    "swap-digest": 11,
    "floor": 20,
    "compaction-min-lag": 23,
}
