"""Finds the first key after a given one in a tree of folders; keys are compared as whole strings."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable


def first_after(names_in: Callable[[str], list[str]], folder: str, key: str) -> str | None:
    """Return the smallest key > `key` below `folder` ('' or ending with '/'), or None.

    `names_in` lists a folder. It must end the names of directories with '/', and sort them with that '/'. This gives
    the order of whole keys, including those in subfolders (`a-b` < `a/b`, although `a` < `a-b`). The only folders
    listed are those that lead to `key`, those that lead to the returned key, and empty ones in between.
    """
    keys = [folder + name for name in names_in(folder)]
    first = bisect_right(keys, key)
    if first > 0 and keys[first - 1].endswith("/") and key.startswith(keys[first - 1]):
        first -= 1  # the directory that would contain `key` sorts before it, but may hold greater keys
    for candidate in keys[first:]:
        following = first_after(names_in, candidate, key) if candidate.endswith("/") else candidate
        if following is not None:
            return following
    return None
