"""How far FLOOR may rise, given the times of entries."""

from __future__ import annotations

import math
import uuid

from hypothesis import given
from hypothesis import strategies as st

from sparklog.chain.entry import NO_PREVIOUS, Entry, encode_entry
from sparklog.chain.floor import RECENT_ENTRIES, newest_older_than, time_shown
from sparklog.core.coordination import Author
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_key
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import FaultyStore

AUTHOR = Author("client", "test")


def chain(times_ms: list[int], missing: int = 0) -> FaultyStore:
    """Entries with these times, without the first `missing` ones."""
    store = MemoryStore(f"memory://{uuid.uuid4().hex}")
    for n, time_ms in enumerate(times_ms):
        if n >= missing:
            entry = Entry("c" * 32, EntryNumber(n), AUTHOR, "f" * 32, NO_PREVIOUS, time_ms, ())
            store.put_if_absent(entry_key(n), encode_entry(entry))
    return FaultyStore(store)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40).map(sorted), st.integers(0, 51), st.data())
def test_it_finds_what_reading_every_entry_would(times_ms: list[int], before_ms: int, data: st.DataObject) -> None:
    floor = data.draw(st.integers(0, len(times_ms) - 1))
    older = [n for n, time_ms in enumerate(times_ms) if n > floor and time_ms < before_ms]
    store = chain(times_ms)
    assert newest_older_than(store, floor, len(times_ms), before_ms) == max(older, default=floor)  # type: ignore[arg-type]
    assert store.count("get") <= math.ceil(math.log2(len(times_ms) + 1))


def test_entries_that_are_gone_count_as_old() -> None:
    store = chain([1] * 10 + [100], missing=4)
    assert newest_older_than(store, 0, 11, 50) == 9  # type: ignore[arg-type]


def test_one_entry_of_a_clock_far_ahead_does_not_hold_floor_for_ever() -> None:
    store = chain([10**15, *range(1, 20)])
    assert newest_older_than(store, 0, 20, 15) == 14  # type: ignore[arg-type]


def test_the_time_that_is_shown_rests_on_no_clock_alone() -> None:
    ahead = [10**15] * (RECENT_ENTRIES - 1)
    assert time_shown(chain([1, 90, *ahead]), RECENT_ENTRIES + 1, 10**15) == 90
    assert time_shown(chain([1, 90, *ahead]), 2, 10**15) == 1, "only entries before a given one count"
    assert time_shown(chain([1, 90], missing=1), 2, 80) == 80
    assert time_shown(chain([1, 90], missing=2), 2, 80) == 80
