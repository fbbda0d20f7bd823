"""A map that forks: each version behaves as a dict that was copied in full, whatever became of the others."""

from __future__ import annotations

import weakref
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.tables import copy_on_write
from sparklog.core.tables.copy_on_write import CopyOnWriteMap

Dict = dict[int, int]
Map = CopyOnWriteMap[int, int]

WHAT = ["set", "set", "set", "delete", "pop", "clear", "setdefault", "put all", "fork", "fork"]
STEPS = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(WHAT), st.integers(0, 12), st.integers(0, 99)), max_size=60
)


def step(target: Dict | Map, what: str, key: int, value: int) -> object:
    """What the step gives; KeyError as a value."""
    try:
        match what:
            case "set":
                target[key] = value
            case "delete":
                del target[key]
            case "pop":
                return target.pop(key)
            case "clear":
                target.clear()
            case "put all":
                more = dict.fromkeys(range(key, key + value % 5), value)
                target.update(more) if isinstance(target, dict) else target.put_all(more)
            case _:
                return target.setdefault(key, value)
    except KeyError as error:
        return error.args
    return None


def same(found: Map, wanted: Dict) -> bool:
    asked = range(-1, 15)
    return (
        sorted(found) == sorted(wanted)
        and sorted(found.items()) == sorted(wanted.items())
        and sorted(found.values()) == sorted(wanted.values())
        and len(found) == len(wanted)
        and bool(found) == bool(wanted)
        and [found.get(key, "none") for key in asked] == [wanted.get(key, "none") for key in asked]
        and [key in found for key in asked] == [key in wanted for key in asked]
        and found.get_all(wanted) == list(wanted.values())
        and found == wanted
    )


@given(steps=STEPS, begin=st.dictionaries(st.integers(0, 12), st.integers(0, 99)), shard_keys=st.integers(1, 4))
def test_every_version_is_a_dict_of_its_own(
    steps: list[tuple[int, str, int, int]], begin: Dict, shard_keys: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy_on_write, "SHARD_KEYS", shard_keys)
        versions: list[tuple[Map, Dict]] = [(CopyOnWriteMap(begin), dict(begin))]
        for at, what, key, value in steps:
            found, wanted = versions[at % len(versions)]
            if what == "fork":
                versions.append((found.fork(), dict(wanted)))
            else:
                assert step(found, what, key, value) == step(wanted, what, key, value)
        for found, wanted in versions:
            assert same(found, wanted), (found, wanted)


def test_a_write_copies_one_shard_and_not_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_on_write, "SHARD_KEYS", 4)
    whole: Map = CopyOnWriteMap(dict.fromkeys(range(60), 0))
    fork = whole.fork()
    fork[7] = 1
    fork[7] = 2
    del fork[23]  # in the same shard
    copied = [old is not new for old, new in zip(whole._shards, fork._shards, strict=True)]
    assert (len(copied), sum(copied)) == (16, 1)


@given(steps=STEPS, begin=st.dictionaries(st.integers(0, 12), st.integers(0, 99)), shard_keys=st.integers(1, 4))
def test_two_versions_differ_in_what_was_written_between_them(
    steps: list[tuple[int, str, int, int]], begin: Dict, shard_keys: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy_on_write, "SHARD_KEYS", shard_keys)
        versions: list[Map] = [CopyOnWriteMap(begin)]
        for at, what, key, value in steps:
            if what == "fork":
                versions.append(versions[at % len(versions)].fork())
            else:
                step(versions[at % len(versions)], what, key, value)
        for before, after in pairwise(versions):  # the values are small numbers: equal ones are the same object
            wanted = {key for key in range(-1, 16) if before.get(key, "none") != after.get(key, "none")}
            found = list(after.differing(before))
            assert (set(found), len(found)) == (wanted, len(wanted))


def test_what_differs_is_looked_for_only_where_something_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_on_write, "SHARD_KEYS", 4)
    whole: Map = CopyOnWriteMap(dict.fromkeys(range(60), 0))
    fork = whole.fork()
    fork[7] = 1
    looked: list[int] = []
    monkeypatch.setattr(copy_on_write, "_differing", lambda items, before: looked.extend(items) or iter(()))
    list(fork.differing(whole))
    assert looked == [7, 23, 39, 55]


def test_a_key_that_is_not_there_is_deleted_without_a_copy() -> None:
    whole: Map = CopyOnWriteMap({1: 1})
    fork = whole.fork()
    with pytest.raises(KeyError, match="7"):
        del fork[7]
    assert fork._shards is whole._shards


class Value:
    """Something whose end can be seen."""


def test_a_version_that_nobody_holds_is_freed_with_what_only_it_had() -> None:
    head: CopyOnWriteMap[int, Value] = CopyOnWriteMap((key, Value()) for key in range(2_000))
    first = weakref.ref(head[7])
    held = head.fork()
    for _ in range(100):
        head = head.fork()
        head[7] = Value()
    assert first() is held[7]
    del held
    assert first() is None
    assert len(head) == 2_000


def test_shards_stay_small_as_keys_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_on_write, "SHARD_KEYS", 8)
    one_by_one: Map = CopyOnWriteMap()
    for key in range(1_000):
        one_by_one[key] = key
    at_once: Map = CopyOnWriteMap()
    at_once.put_all(dict(one_by_one))
    for grown in (one_by_one, at_once, CopyOnWriteMap(dict(one_by_one))):
        assert (len(grown._shards), max(map(len, grown._shards)) <= 8) == (256, True)


def test_many_shards_are_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHARD_KEYS": 1, "MANY_SHARDS": 16, "LARGE_SHARD_KEYS": 32}.items():
        monkeypatch.setattr(copy_on_write, name, value)
    grown: Map = CopyOnWriteMap()
    shards = []
    for key in range(600):
        grown[key] = key
        shards.append(len(grown._shards))
    assert [shards.index(count) + 1 for count in (4, 16, 64)] == [2, 5, 16 * 32 + 1]  # at how many keys


def test_a_map_shows_its_items() -> None:
    assert repr(CopyOnWriteMap({"a": 1})) == "CopyOnWriteMap({'a': 1})"
