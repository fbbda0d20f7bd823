"""Keys in the folders of a file system: which one comes next, in the order of whole keys."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable


def first_after(names_in: Callable[[str], list[str]], folder: str, key: str) -> str | None:
    """The smallest key > `key` below `folder` ('' or ending with '/'), or None.

    `names_in` lists a folder: names of directories end with '/', and sorting is by the names so written, which is the
    order of the whole keys, also below: `a-b` < `a/b`, though `a` < `a-b`. Only folders on the way to the answer, and
    empty ones, are listed.
    """
    keys = [folder + name for name in names_in(folder)]
    first = bisect_right(keys, key)
    if first > 0 and keys[first - 1].endswith("/") and key.startswith(keys[first - 1]):
        first -= 1  # the directory that `key` would lie in sorts before it, and may hold greater ones
    for each in keys[first:]:
        found = first_after(names_in, each, key) if each.endswith("/") else each
        if found is not None:
            return found
    return None
