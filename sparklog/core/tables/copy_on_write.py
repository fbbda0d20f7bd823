"""A map that forks in O(1): a fork starts equal, and later changes to one map are not seen in the other.

Keys are spread over shards: plain dicts of up to a few hundred keys. A fork shares all shards, and copies a shard when
it first writes to it. Such a first write costs 1 to 6 µs, for maps of ten keys to a million; any other write costs
about as much as a dict's. When a fork is no longer used, it is freed, with the shards that only it had. A fork of a
fork is no slower than a fork.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from itertools import chain
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

# Above this many keys per shard the number of shards is quadrupled, so that copying a shard stays cheap. The list of
# shards is copied too, so a map with many shards has larger ones.
SHARD_KEYS = 64
LARGE_SHARD_KEYS = 512
MANY_SHARDS = 256


class CopyOnWriteMap(MutableMapping[K, V], Generic[K, V]):
    """A map whose values are immutable. Iteration order is arbitrary: sort the keys if the order matters.

    One thread may change a map while others read its forks, or the map it was forked from. Once several threads have
    access to a map, it must not be changed any more; forking it is safe.
    """

    __slots__ = ("_mask", "_owned", "_shards", "_size")

    _shards: list[dict[K, V]]  # their number is a power of four
    _mask: int  # the number of shards minus one: the low bits of a key's hash select its shard
    _size: int
    _owned: set[int] | None  # the shards that only this map has; None if even the list of shards is shared

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._spread(dict(items))

    def fork(self) -> CopyOnWriteMap[K, V]:
        """An independent map with the same keys and values."""
        other: CopyOnWriteMap[K, V] = CopyOnWriteMap.__new__(CopyOnWriteMap)
        other._shards, other._mask, other._size = self._shards, self._mask, self._size
        other._owned = self._owned = None
        return other

    def __getitem__(self, key: K) -> V:
        return self._shards[hash(key) & self._mask][key]

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: V | D) -> V | D: ...

    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of `key`, or `default`. Faster than the method of MutableMapping."""
        return self._shards[hash(key) & self._mask].get(key, default)

    def get_all(self, keys: Iterable[K]) -> list[V]:
        """The values of many keys, in their order; faster than one look-up each. Raises KeyError if one is missing."""
        mask, shards = self._mask, self._shards
        return [shards[hash(key) & mask][key] for key in keys]

    def __contains__(self, key: object) -> bool:
        return key in self._shards[hash(key) & self._mask]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._shards)

    def values(self) -> ValuesView[V]:
        """Return a view of the values. Unlike that of MutableMapping, it iterates without a look-up of each key."""
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        """Return a view of the items. Unlike that of MutableMapping, it iterates without a look-up of each key."""
        return _Items(self)

    def differing(self, before: CopyOnWriteMap[K, V]) -> Iterator[K]:
        """Yield the keys that only one of the two maps has, or whose values are different objects.

        If one map is a fork of the other, only the shards that were written to are compared, unless their number has
        changed: 0.1 ms for a million keys.
        """
        if len(before._shards) != len(self._shards):
            yield from _differing(dict(self.items()), dict(before.items()))
            return
        for shard, other in zip(self._shards, before._shards, strict=True):
            if shard is not other:
                yield from _differing(shard, other)

    def __setitem__(self, key: K, value: V) -> None:
        at = hash(key) & self._mask
        owned = self._owned
        shard = self._shards[at] if owned is not None and at in owned else self._own(at)
        before = len(shard)
        shard[key] = value
        if len(shard) > before:
            self._size += 1
            if self._size > _most_keys(len(self._shards)):
                self._spread(dict(self.items()))

    def put_all(self, items: Mapping[K, V]) -> None:
        """Set many keys at once, at half the cost of setting each one."""
        mask, shards, owned = self._mask, self._shards, self._owned
        if owned is None:
            shards, owned = self._shards, self._owned = shards.copy(), set()
        size = self._size
        for key, value in items.items():
            at = hash(key) & mask
            shard = shards[at]
            if at not in owned:
                shard = shards[at] = shard.copy()
                owned.add(at)
            before = len(shard)
            shard[key] = value
            size += len(shard) - before
        self._size = size
        if size > _most_keys(len(shards)):
            self._spread(dict(self.items()))

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)  # before a shard is copied for nothing
        del self._own(hash(key) & self._mask)[key]
        self._size -= 1

    def clear(self) -> None:
        """Remove all keys at once. Faster than the method of MutableMapping."""
        self._spread({})

    def _own(self, at: int) -> dict[K, V]:
        """Return shard number `at`, copied first if another map shares it."""
        shards, owned = self._shards, self._owned
        if owned is None:
            shards, owned = self._shards, self._owned = shards.copy(), set()
        if at not in owned:
            shards[at] = shards[at].copy()
            owned.add(at)
        return shards[at]

    def _spread(self, items: dict[K, V]) -> None:
        """Make `items` the whole content of the map, in as many shards as they need."""
        count = 1
        while _most_keys(count) < len(items):
            count *= 4
        self._mask, self._size = count - 1, len(items)
        self._shards = [{} for _ in range(count)] if count > 1 else [items]
        self._owned = set(range(count))
        if count > 1:
            for key, value in items.items():
                self._shards[hash(key) & self._mask][key] = value

    def __repr__(self) -> str:
        return f"CopyOnWriteMap({dict(self.items())})"


def _most_keys(shards: int) -> int:
    """Return the largest number of keys that a map of this many shards may have before it gets more shards."""
    return shards * (SHARD_KEYS if shards < MANY_SHARDS else LARGE_SHARD_KEYS)


def _differing(items: dict[K, V], before: dict[K, V]) -> Iterator[K]:
    for key, value in items.items():
        if key not in before or before[key] is not value:
            yield key
    for key in before:
        if key not in items:
            yield key


class _Values(ValuesView[V]):
    _mapping: CopyOnWriteMap[Any, V]

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(shard.values() for shard in self._mapping._shards)


class _Items(ItemsView[K, V]):
    _mapping: CopyOnWriteMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(shard.items() for shard in self._mapping._shards)
