"""Ranged reads ahead: in order, as many under way as the store can take, and none after the reader has stopped."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import pytest

from sparklog.core.errors import StoreUnavailable
from sparklog.log.read import read_ahead
from sparklog.log.read.read_ahead import bodies, in_background
from sparklog.storage.memory import MemoryStore

RANGES = [(at, at + 10) for at in range(0, 200, 10)]
WAIT_S = 60


class LateStore(MemoryStore):
    """Answers a range when `read_ahead` + 1 of them are asked for, or when all are asked for that there are."""

    def __init__(self, url: str, read_ahead: int) -> None:
        super().__init__(url)
        self.read_ahead = read_ahead
        self.together = threading.Barrier(read_ahead + 1)
        self.asked: list[tuple[int, int]] = []

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        self.asked += ranges
        self.together.wait(WAIT_S)
        return super().get_ranges(key, ranges)


def stored(store: MemoryStore) -> bytes:
    body = bytes(range(200))
    store.delete("a")
    store.put_if_absent("a", body)
    return body


def test_as_many_ranges_are_under_way_as_the_store_can_take_and_they_come_in_order() -> None:
    store = LateStore("memory://read-ahead", 3)
    body = stored(store)
    assert b"".join(bytes(each) for each in bodies(store, "a", RANGES)) == body
    assert sorted(store.asked) == RANGES


def test_on_a_disk_nothing_is_fetched_before_it_is_needed() -> None:
    store = LateStore("memory://read-ahead-none", 0)
    body = stored(store)
    reading = bodies(store, "a", RANGES)
    assert bytes(next(reading)) == body[:10]
    assert store.asked == RANGES[:1]


def test_a_range_that_fails_fails_in_its_turn() -> None:
    class Failing(MemoryStore):
        read_ahead = 2

        def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
            if ranges[0] == RANGES[3]:
                raise StoreUnavailable("gone")
            return super().get_ranges(key, ranges)

    store = Failing("memory://read-ahead-failing")
    body = stored(store)
    reading = bodies(store, "a", RANGES)
    assert [bytes(next(reading)) for _ in range(3)] == [body[start:end] for start, end in RANGES[:3]]
    with pytest.raises(StoreUnavailable, match="gone"):
        next(reading)


def test_what_was_not_begun_when_the_reader_stops_is_not_fetched() -> None:
    asked = []
    gate = threading.Event()
    held = [in_background(lambda: gate.wait(WAIT_S)) for _ in range(8)]  # every thread is busy

    class Watched(MemoryStore):
        read_ahead = 4

        def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
            asked.extend(ranges)
            return super().get_ranges(key, ranges)

    store = Watched("memory://read-ahead-stopped")
    stored(store)
    reading = bodies(store, "a", RANGES)
    first = threading.Thread(target=lambda: next(reading))
    first.start()
    gate.set()
    first.join(WAIT_S)
    reading.close()
    assert all(each.result() for each in held)
    assert set(asked) <= set(RANGES[:5])


def test_what_is_there_already_is_not_fetched_again() -> None:
    for ahead in (0, 2):
        store = MemoryStore("memory://read-ahead-first")
        store.read_ahead = ahead
        body = stored(store)
        for count in (1, 2, 5):
            there = [memoryview(b"there")] * min(count, 3)
            rest = [body[start:end] for start, end in RANGES[len(there) : count]]
            found = [bytes(each) for each in bodies(store, "a", RANGES[:count], there)]
            assert found == [b"there"] * len(there) + rest


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_fetches_with_threads_of_its_own() -> None:
    assert in_background(lambda: 1).result() == 1
    with read_ahead._lock:  # as another thread may hold it just then
        child = os.fork()
        if not child:
            os._exit(in_background(lambda: 7).result(WAIT_S))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
