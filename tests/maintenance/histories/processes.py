"""Processes that reach stores in memory, and are killed or held up at any request to one.

The first part of a store's address names the process: `memory://p7/cluster` is the store `memory://cluster` as process
p7 reaches it. So whatever a job opens in its name, in any thread, is its own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

import pytest

from sparklog.storage import memory, open_store
from sparklog.storage.keys import LOG
from sparklog.storage.memory import MemoryStore, _contents_by_name
from tests.kit.hand_clock import HandClock
from tests.kit.store_around import StoreAround

T = TypeVar("T")
_OF_PROCESS: Final = re.compile(r"memory://(p[0-9]+)/(.+)")
_CHAIN: Final = "meta/"
_CHANGES: Final = ("put_if_absent", "publish", "delete", "remove_abandoned")


class Died(BaseException):
    """What every request of a process raises once it was killed."""


class Interruption(NamedTuple):
    """At its `at`-th request (from 1) a process is killed, before or `after` the request is done, or is held up.

    `counted`: "entries", only what is put into the chain; "data", those, and everything but reads of the chain; "all".
    """

    at: int
    kind: str  # "killed" or "held up"
    after: bool
    counted: str

    def counts(self, key: str, *, changes: bool) -> bool:
        """Whether a request counts."""
        if self.counted == "entries":
            return changes and key.startswith(LOG)
        return changes or self.counted == "all" or not key.startswith(_CHAIN)


class Process:
    """A process. `meanwhile` is called while it is held up."""

    def __init__(self, name: str, interruption: Interruption | None, meanwhile: Callable[[], object]) -> None:
        self.name = name
        self.is_dead = False
        self.was_interrupted = False
        self._interruption = interruption
        self._meanwhile = meanwhile
        self._counted = 0
        self._lock = threading.Lock()

    def url(self, of: str) -> str:
        """The address of a store as this process reaches it."""
        return f"memory://{self.name}/{of}"

    def request(self, act: Callable[[], T], key: str, *, changes: bool) -> T:
        """Perform one request, unless the process dies."""
        if self.is_dead:
            raise Died
        if not self._is_interrupted(key, changes=changes):
            return act()
        assert self._interruption is not None
        if self._interruption.kind == "held up":
            self._meanwhile()
            return act()
        try:
            if self._interruption.after:
                act()
        finally:
            self.is_dead = True
        raise Died

    def _is_interrupted(self, key: str, *, changes: bool) -> bool:
        what = self._interruption
        if what is None or not what.counts(key, changes=changes):
            return False
        with self._lock:
            self._counted += 1
            if self._counted != what.at:
                return False
            self.was_interrupted = True
            return True

    def run(self, act: Callable[[], T]) -> T | None:
        """What `act` returns; None if the process is killed meanwhile, whatever becomes of `act`."""
        try:
            result = act()
        except KeyboardInterrupt:
            raise
        except BaseException:
            if self.is_dead:
                return None
            raise
        return None if self.is_dead else result


class StoreOfProcess(StoreAround):
    """A store in memory, as a process reaches it; also one without a process, which nothing befalls.

    An upload stays unfinished if its process dies.
    """

    def __init__(self, url: str) -> None:
        match = _OF_PROCESS.fullmatch(url)
        super().__init__(MemoryStore(url if match is None else f"memory://{match[2]}"))
        self._process = None if match is None else _processes[match[1]]
        if match is not None:
            self.url = f"memory://{match[1]}/{self.url.removeprefix('memory://')}"

    def call(self, method: str, key: str, perform: Callable[[], T]) -> T | None:
        if self._process is None or method in ("upload", "write"):
            return perform()
        if method == "abort":
            return None if self._process.is_dead else perform()
        return self._process.request(perform, key, changes=method in _CHANGES)


_processes: dict[str, Process] = {}


class Processes:
    """The processes of a history, and the cluster `root` that they reach."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._count = 0

    def begin(
        self, interruption: Interruption | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> Process:
        """A new process."""
        self._count += 1
        process = Process(f"p{self._count}", interruption, meanwhile)
        _processes[process.name] = process
        return process

    def url(self, process: Process) -> str:
        """The address of the cluster for a process."""
        return process.url(self.root)

    def unfinished_uploads(self) -> int:
        """How many uploads have neither been published nor dropped, in all stores."""
        return sum(len(_contents_by_name[name].uploads) for name in self._names())

    def forget(self) -> None:
        """Drop everything that was stored."""
        _processes.clear()
        for name in self._names():
            del _contents_by_name[name]

    def _names(self) -> list[str]:
        return [name for name in _contents_by_name if name == self.root or name.startswith(f"{self.root}/")]


@contextmanager
def stores_of_processes(clock: HandClock) -> Iterator[None]:
    """Every store in memory that is opened is one of a process, and its objects have times of this clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_store, "MemoryStore", StoreOfProcess)
        patch.setattr(memory, "now_ms", clock.now_ms)
        yield
