"""Ranged reads ahead: in order, as many under way as the store can take, and none after the reader has stopped."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Sequence
from functools import partial

import pytest

from sparklog.core.errors import Damaged, StoreUnavailable
from sparklog.log.read import read_ahead
from sparklog.log.read.read_ahead import bodies, in_background, one_ahead
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import FaultyStore

RANGES = [(at, at + 10) for at in range(0, 200, 10)]
WAIT_S = 20


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

    def make(number: int) -> int:
        made.put(number)
        if number == 4:
            raise Damaged("the fifth")
        return number

    ahead = one_ahead(partial(make, number) for number in range(5))
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
        assert list(one_ahead([lambda: 1, lambda: 2])) == [1, 2]
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


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_itself_what_threads_of_its_parent_were_doing() -> None:
    parent, held = os.getpid(), threading.Event()
    wait = partial(held.wait, WAIT_S)
    ahead = one_ahead([lambda: 1, lambda: os.getpid() != parent or wait()])
    assert next(ahead) == 1
    fetch = in_background(lambda: os.getpid() != parent or wait())
    with fetch._future._condition:  # type: ignore[union-attr]  # as its thread may hold it just then
        child = os.fork()
        if not child:
            signal.alarm(WAIT_S)
            rest = [fetch.result(0), *ahead]
            fetch.cancel()
            os._exit(0 if rest == [True, True] else 1)
    held.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fetch.result(WAIT_S)
    assert list(ahead) == [True]


def test_reads_go_on_after_the_main_thread_has_ended() -> None:
    """Python starts no thread of a pool then."""
    program = """
import threading
from sparklog.log.read.read_ahead import bodies, in_background, one_ahead
from sparklog.storage.memory import MemoryStore

class Remote(MemoryStore):
    read_ahead = 2

def work():
    threading.main_thread().join()
    store = Remote("memory://after-main")
    store.put_if_absent("a", b"12345")
    while (fetch := in_background(lambda: 6))._future is not None:
        pass  # Python is about to end the threads
    assert not fetch.done()
    fetch.cancel()
    print(*one_ahead([lambda: 1, lambda: 2, lambda: 3]), fetch.result())
    print(*(bytes(body).decode() for body in bodies(store, "a", [(at, at + 1) for at in range(5)])))

threading.Thread(target=work).start()
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (found.stdout, found.stderr) == ("1 2 3 6\n1 2 3 4 5\n", "")
