"""The next key of a tree of folders is the next one of the sorted keys, whatever their names."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from sparklog.storage.folders import first_after

NAMES = st.sampled_from(["a", "a-b", "a0", "b", "a.c"])  # '-' and '.' sort before '/', '0' behind it
KEYS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@given(st.sets(KEYS, max_size=12), KEYS)
def test_the_next_key_is_the_next_of_all_in_their_order(keys: set[str], key: str) -> None:
    files = sorted(each for each in keys if not any(other.startswith(f"{each}/") for other in keys))

    def names_in(folder: str) -> list[str]:
        below = [each[len(folder) :] for each in files if each.startswith(folder)]
        return sorted({name if name == rest else f"{name}/" for rest in below for name in [rest.partition("/")[0]]})

    at = bisect_right(files, key)
    assert first_after(names_in, "", key) == (files[at] if at < len(files) else None)
