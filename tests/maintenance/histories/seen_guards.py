"""The guards of `tests/guards/` that a history misses when they are gone, each with the seed of one that shows it."""

from __future__ import annotations

from typing import Final

# If the histories change, look for other seeds: `python -m tests.maintenance.histories --seeds 0-40 --guards NAME,…`.
SEEN: Final = {
    "tombstone-delay": 0,
    "orphan-floor": 1,
    "orphan-named": 0,
    "old-mark-first": 0,
    "compaction-spare": 5,
    "compaction-min-lag": 5,
    "floor": 25,
    "delete-delay": 11,
}
