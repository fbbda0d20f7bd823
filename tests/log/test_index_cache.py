"""The cache of indexes: threads that want the same one at the same time read it once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from sparklog.core.errors import StoreUnavailable
from sparklog.log.read import object_reader
from sparklog.log.read.object_reader import _IndexCache

KEY = ("memory://x", "append/a.arrow", 7)
PATIENCE_S = 30


class Reading:
    """Reads of an index by two threads. The first one lasts until the other thread reads as well, or waits for it."""

    def __init__(self) -> None:
        self.cache = _IndexCache(8)
        self.index: Any = object()
        self.reads = 0
        self.first_reads, self.other_is_there = threading.Event(), threading.Event()

    def both(self, end_of_first: Callable[[], object]) -> Iterator[Future[object]]:
        """What the first thread, which reads as `end_of_first` says, and the other one get."""

        def read() -> Any:
            self.reads += 1
            if self.reads > 1:
                self.other_is_there.set()
                return self.index
            self.first_reads.set()
            assert self.other_is_there.wait(PATIENCE_S)
            return end_of_first()

        with ThreadPoolExecutor(2) as pool:
            yield pool.submit(self.cache.get, KEY, read)
            assert self.first_reads.wait(PATIENCE_S)
            yield pool.submit(self.cache.get, KEY, read)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    made = Reading()

    class Noticed(Future):  # type: ignore[type-arg]
        def result(self, timeout: float | None = None) -> object:
            made.other_is_there.set()
            return super().result(timeout)

    monkeypatch.setattr(object_reader, "Future", Noticed)
    return made


def test_two_threads_read_it_once(reading: Reading) -> None:
    first, other = reading.both(lambda: reading.index)
    assert (first.result(), other.result(), reading.reads) == (reading.index, reading.index, 1)
    assert reading.cache._coming == {}


def test_an_error_is_that_of_both_and_is_not_kept(reading: Reading) -> None:
    def fail() -> None:
        raise StoreUnavailable("away")

    first, other = reading.both(fail)
    for each in (first, other):
        assert isinstance(each.exception(), StoreUnavailable)
    assert reading.reads == 1
    assert reading.cache.get(KEY, lambda: reading.index) is reading.index


def test_an_interrupt_is_that_of_one_and_the_other_reads_itself(reading: Reading) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    first, other = reading.both(interrupt)
    assert isinstance(first.exception(), KeyboardInterrupt)
    assert (other.result(), reading.reads) == (reading.index, 2)


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    cache, index = _IndexCache(8), object()
    cache._coming[KEY] = Future()
    cache._lock.acquire()
    cache.forget_threads()
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.append(cache.get(KEY, lambda: index)), daemon=True)  # type: ignore[arg-type,return-value]
    reader.start()
    reader.join(PATIENCE_S)
    assert found == [index]
