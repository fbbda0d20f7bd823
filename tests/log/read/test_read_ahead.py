"""Ranged reads ahead: in order, as many under way as the store can take, and none after the reader has stopped."""

from __future__ import annotations

import os
import queue
import threading
import uuid
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from sparklog.core.errors import Damaged, StoreUnavailable
from sparklog.log.read import read_ahead
from sparklog.log.read.read_ahead import bodies, in_background, one_ahead
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import FaultyStore

RANGES = [(at, at + 10) for at in range(0, 200, 10)]
WAIT_S = 60


BODY = bytes(range(200))


def stored(read_ahead: int) -> FaultyStore:
    store = MemoryStore(f"memory://{uuid.uuid4().hex}")
    store.put_if_absent("a", BODY)
    return FaultyStore(store, read_ahead=read_ahead)


def asked(store: FaultyStore) -> list[tuple[int, int]]:
    return [(start, end) for _, start, end in store.ranges]


def test_as_many_ranges_are_under_way_as_the_store_can_take_and_they_come_in_order() -> None:
    store, together = stored(3), threading.Barrier(4)
    store.before = lambda call, key: together.wait(WAIT_S)
    assert b"".join(bytes(each) for each in bodies(store, "a", RANGES)) == BODY
    assert sorted(asked(store)) == RANGES


def test_on_a_disk_nothing_is_fetched_before_it_is_needed() -> None:
    store = stored(0)
    reading = bodies(store, "a", RANGES)
    assert bytes(next(reading)) == BODY[:10]
    assert asked(store) == RANGES[:1]


def test_a_range_that_fails_fails_in_its_turn() -> None:
    class Failing(MemoryStore):
        read_ahead = 2

        def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
            if ranges[0] == RANGES[3]:
                raise StoreUnavailable("gone")
            return super().get_ranges(key, ranges)

    store = Failing("memory://read-ahead-failing")
    store.put_if_absent("a", BODY)
    reading = bodies(store, "a", RANGES)
    assert [bytes(next(reading)) for _ in range(3)] == [BODY[start:end] for start, end in RANGES[:3]]
    with pytest.raises(StoreUnavailable, match="gone"):
        next(reading)


def test_what_was_not_begun_when_the_reader_stops_is_not_fetched() -> None:
    gate = threading.Event()
    held = [in_background(lambda: gate.wait(WAIT_S)) for _ in range(8)]  # every thread is busy

    store = stored(4)
    reading = bodies(store, "a", RANGES)
    first = threading.Thread(target=lambda: next(reading))
    first.start()
    gate.set()
    first.join(WAIT_S)
    reading.close()
    assert all(each.result() for each in held)
    assert set(asked(store)) <= set(RANGES[:5])


def test_what_is_there_already_is_not_fetched_again() -> None:
    for ahead in (0, 2):
        store = stored(ahead)
        for count in (1, 2, 5):
            there = [memoryview(b"there")] * min(count, 3)
            rest = [BODY[start:end] for start, end in RANGES[len(there) : count]]
            found = [bytes(each) for each in bodies(store, "a", RANGES[:count], there)]
            assert found == [b"there"] * len(there) + rest


def test_one_batch_is_made_before_it_is_needed_and_only_one() -> None:
    made: queue.Queue[int] = queue.Queue()

    def batches() -> Iterator[int]:
        for number in range(4):
            made.put(number)
            yield number
        raise Damaged("the fifth")

    ahead = one_ahead(batches())
    assert next(ahead) == made.get(timeout=WAIT_S) == 0
    for number in range(1, 4):
        assert made.get(timeout=WAIT_S) == number
        assert made.empty()
        assert next(ahead) == number
    with pytest.raises(Damaged, match="the fifth"):
        next(ahead)


def test_no_batch_waits_for_stores_that_do_not_answer() -> None:
    answers = threading.Event()
    fetches = [in_background(partial(answers.wait, WAIT_S)) for _ in range(read_ahead.THREADS)]
    try:
        assert list(one_ahead(iter([1, 2, 3]))) == [1, 2, 3]
    finally:
        answers.set()
    assert all(fetch.result(WAIT_S) for fetch in fetches)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_fetches_with_threads_of_its_own() -> None:
    assert in_background(lambda: 1).result() == 1
    with read_ahead._lock:  # as another thread may hold it just then
        child = os.fork()
        if not child:
            os._exit(in_background(lambda: 7).result(WAIT_S))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
