"""Seeds that broke a promise once, by what was wrong then. They stay as tests."""

from __future__ import annotations

from typing import Final

# Before copies and restore were designed again; the letters are those of the findings in the tracker.
FOUND: Final[dict[str, tuple[int, ...]]] = {
    "H1: a new store alone has copies of its own registration, and of all that follows": (14, 29, 50),
    "H2: a store that is registered during a restore is neither marked nor closed": (20, 60, 63),
    "H3: copies behind a hole count, and a restore stops there in silence": (17, 24, 43),
    "H4: a store that is added again still takes copies of the old chain": (520, 930, 1045),
    "H6: damage on one store makes a restore impossible": (645, 954, 1161, 1470),
    "H7: two runs of one restore begin two chains of one id": (76, 94, 130),
    "H8: a restore that is refused locks out every other one": (116, 870),
    "H9: a store that was removed meanwhile is a KeyError": (7, 23, 36, 48),
}
