"""Threads that append, each with a connection of its own, and what they heard.

They write what `ledger_writer` writes, and start at once, so that each trouble of slow servers may have its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sparklog
from sparklog.client.cluster import Cluster
from tests.faults.ledger_writer import PARTITIONS, TOPIC, rows_of
from tests.faults.store_folders import StoreFolders

_PATIENCE_S = 25  # less than a request to a slow store takes


class LedgerThreads:
    """Order of calls: `running`, then any inside its block. What was acknowledged is noted in `folders`.

    Writer 0 writes to partition 0, any other one to both partitions in one commit, without a pause, but at most `ahead`
    appends more than the test has waited for: what they write while servers start would have to be copied and compared.
    """

    def __init__(self, folders: StoreFolders, *, ahead: int) -> None:
        self._folders = folders
        self._ahead = ahead
        self._changed = threading.Condition()
        self._heard: list[int] = []  # of each writer: the appends that were acknowledged
        self._allowed: list[int] = []  # … and how many may be
        self._writing = 0
        self._paused = False
        self._over = False
        self._errors: list[BaseException] = []

    @contextmanager
    def running(self, writers: int) -> Iterator[LedgerThreads]:
        """They write inside this block, whose end raises what stopped one of them, if anything did."""
        self._heard, self._allowed = [0] * writers, [self._ahead] * writers
        threads = [threading.Thread(target=self._run, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()
            for thread in threads:
                thread.join()
        assert self._errors == []

    def hear(self, appends: int) -> float:
        """Return once every writer has heard of this many appends that it began after this call: after how long, s."""
        began_s = time.monotonic()
        with self._changed:
            wanted = [heard + appends + 1 for heard in self._heard]  # the first one may have begun before
            self._allowed = [heard + self._ahead for heard in wanted]
            self._changed.notify_all()
            self._wait(lambda: all(heard >= least for heard, least in zip(self._heard, wanted, strict=True)))
        return time.monotonic() - began_s

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nobody writes inside this block."""
        with self._changed:
            self._paused = True
            self._wait(lambda: self._writing == 0)
        try:
            yield
        finally:
            with self._changed:
                self._paused = False
                self._changed.notify_all()

    def _wait(self, until: Callable[[], bool]) -> None:
        """With the lock held."""
        self._changed.wait_for(lambda: self._errors or until(), _PATIENCE_S)
        assert self._errors == []
        assert until(), f"the writers have heard of {self._heard} appends, and of no more in {_PATIENCE_S} s"

    def _run(self, number: int) -> None:
        try:
            with sparklog.connect(self._folders.url) as cluster:
                while self._begins(number):
                    self._append(cluster, number, self._heard[number])
                    self._ended(number)
        except BaseException as error:
            with self._changed:
                self._errors.append(error)
                self._changed.notify_all()

    def _begins(self, number: int) -> bool:
        """Wait for this writer's turn. False if there is none any more."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._over or (not self._paused and self._heard[number] < self._allowed[number])
            )
            self._writing += not self._over
            return not self._over

    def _append(self, cluster: Cluster, number: int, turn: int) -> None:
        partitions = [0] if number == 0 else range(PARTITIONS)
        values = {at: [f"{number}-{turn}-{at}-{row}" for row in range(2)] for at in partitions}
        for written in cluster.append(TOPIC, rows_of(values)).ranges:
            self._folders.note(TOPIC, written.partition, written.start, values[written.partition])

    def _ended(self, number: int) -> None:
        with self._changed:
            self._writing -= 1
            self._heard[number] += 1
            self._changed.notify_all()
