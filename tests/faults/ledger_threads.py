"""Threads that append as fast as they can, each with a connection of its own, and what they heard.

They write what `ledger_writer` writes. Threads start at once, so that each fault of slow servers may have its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import sparklog
from tests.faults.ledger_writer import PARTITIONS, TOPIC, rows_of
from tests.faults.store_folders import StoreFolders

_PATIENCE_S = 25  # less than a request to a slow store takes


class LedgerThreads:
    """Order of calls: `running`, then any inside its block. What was acknowledged is noted in `folders`.

    Writer 0 writes to partition 0, any other one to both partitions in one commit.
    """

    def __init__(self, folders: StoreFolders) -> None:
        self._folders = folders
        self._errors: list[BaseException] = []
        self._over = threading.Event()
        self._go = threading.Event()
        self._go.set()
        self._heard: list[threading.Semaphore] = []
        self._idle = threading.Semaphore(0)

    @contextmanager
    def running(self, writers: int) -> Iterator[LedgerThreads]:
        """They write inside this block, whose end raises what stopped one of them, if anything did."""
        self._heard = [threading.Semaphore(0) for _ in range(writers)]
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._go.set()
            for thread in threads:
                thread.join()
        assert self._errors == []

    def hear(self, appends: int) -> float:
        """Return once every writer has heard of this many appends that it began after this call: after how long, s."""
        began_s = time.monotonic()
        for heard in self._heard:
            while heard.acquire(blocking=False):
                pass
        for heard in self._heard:
            for _ in range(appends + 1):  # the first one may have begun before
                assert heard.acquire(timeout=_PATIENCE_S), f"a writer heard nothing in {_PATIENCE_S} s: {self._errors}"
        return time.monotonic() - began_s

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nobody writes inside this block."""
        self._go.clear()
        for _ in self._heard:
            assert self._idle.acquire(timeout=_PATIENCE_S), self._errors
        try:
            yield
        finally:
            self._go.set()

    def _write(self, number: int) -> None:
        partitions = [0] if number == 0 else list(range(PARTITIONS))
        turn = 0
        try:
            with sparklog.connect(self._folders.url) as cluster:
                while not self._over.is_set():
                    if not self._go.is_set():
                        self._idle.release()
                        self._go.wait()
                        continue
                    values = {at: [f"{number}-{turn}-{at}-{row}" for row in range(2)] for at in partitions}
                    for written in cluster.append(TOPIC, rows_of(values)).ranges:
                        self._folders.note(TOPIC, written.partition, written.start, values[written.partition])
                    self._heard[number].release()
                    turn += 1
        except BaseException as error:
            self._errors.append(error)
