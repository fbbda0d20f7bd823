"""A map laid over another: what is written stays in the upper one. Used to decide on a state that is not yet true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class OverlayMap(MutableMapping[K, V]):
    """Reads fall through to `below`, which is never changed. Values must be immutable, or copied before a change."""

    __slots__ = ("_below", "_gone", "_own")

    def __init__(self, below: Mapping[K, V]) -> None:
        self._below = below
        self._own: dict[K, V] = {}
        self._gone: set[K] = set()

    def __getitem__(self, key: K) -> V:
        if key in self._own:
            return self._own[key]
        if key in self._gone:
            raise KeyError(key)
        return self._below[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._own[key] = value
        self._gone.discard(key)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._own.pop(key, None)
        if key in self._below:
            self._gone.add(key)

    def clear(self) -> None:
        """In one pass, which the mixin's would be for each key."""
        self._own.clear()
        self._gone = set(self._below)

    def __contains__(self, key: object) -> bool:
        return key in self._own or (key not in self._gone and key in self._below)

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in self._below if key not in self._gone and key not in self._own)
        yield from self._own

    def __len__(self) -> int:
        return sum(1 for _ in self)
