"""The stores that one task writes to. Each has its own threads, so that all get the same bytes at the same time.

A store that fails is given up for the rest of the task. So is a store that delays the task for more than
`replica.lag.time.max.ms` in total. The delay is the time that the task waits for the store while at least one other
store is ahead. The write continues with the other stores, and its commit names those that hold the objects.

A live store that is catching up also gets the new objects, because otherwise it could never catch up, but it may delay
the task for CATCHING_UP_WAIT_MS only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from sparklog.core.describe.readable import duration
from sparklog.core.errors import RequestTimedOut, SparklogError, StoreUnavailable
from sparklog.core.types import StoreId
from sparklog.host.clock import SystemClock, WaitingClock
from sparklog.host.daemon import in_daemon
from sparklog.log.incarnation import AnotherIncarnation
from sparklog.storage.object_store import ObjectStore

CATCHING_UP_WAIT_MS: Final = 500

_SYSTEM = SystemClock()


class OpensStores(Protocol):
    """Opens stores by id, such as `log.cluster_stores.Stores`."""

    def get(self, store: StoreId) -> ObjectStore: ...


@dataclass(slots=True, eq=False)
class StoreLane:
    """One store of a task.

    `failure` is the reason why the store was given up, or None. `held_up_ms` is the total time that the task has waited
    for this store while another one was ahead; `limit_ms` is its limit. `incarnation` is the store's registered
    INCARNATION.
    """

    store: StoreId
    incarnation: str
    limit_ms: int
    failure: BaseException | None = None
    held_up_ms: int = 0


class StorePart(Protocol):
    """One store's part of an operation on several stores, such as a copy of an object."""

    lane: StoreLane


P = TypeVar("P", bound=StorePart)


class StoreLanes:
    """The lanes of one task. Call all methods but `opened` and `give_up` from one thread.

    `incarnations` has the registered INCARNATION of each store. Each store may delay the task by `lag_time_max_ms` in
    total, those in `catching_up` by at most CATCHING_UP_WAIT_MS. Stores in `left_out` are given up from the start.
    """

    def __init__(
        self,
        stores: OpensStores,
        incarnations: Mapping[StoreId, str],
        lag_time_max_ms: int,
        clock: WaitingClock = _SYSTEM,
        *,
        catching_up: Collection[StoreId] = (),
        left_out: Collection[StoreId] = (),
    ) -> None:
        self.changed = threading.Condition()
        self._stores = stores
        self._incarnations = incarnations
        self._lag_time_max_ms = lag_time_max_ms
        self._catching_up = catching_up
        self._left_out = left_out
        self._clock = clock
        self._lanes: dict[StoreId, StoreLane] = {}

    def of(self, stores: Iterable[StoreId]) -> list[StoreLane]:
        """Return the lanes of these stores, in the same order."""
        return [self._lane(store) for store in stores]

    def opened(self, lane: StoreLane) -> ObjectStore:
        """Return the store of a lane."""
        return self._stores.get(lane.store)

    def perform(self, lane: StoreLane, work: Callable[[], None], *, here: bool) -> None:
        """Do some work on a store: with `here` now, in the calling thread; otherwise in a thread of its own.

        The store is given up if the work raises an error. The work must end once it is given up.
        """

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self.give_up(lane, error)

        if here:
            run()
        else:
            in_daemon(run, f"sparklog-store-{lane.store}")

    def give_up(self, lane: StoreLane, failure: BaseException) -> None:
        """Ask the store for nothing more in this task. Does nothing if it was given up before."""
        with self.changed:
            if lane.failure is None:
                lane.failure = failure
            self.changed.notify_all()

    def wait(self, parts: Sequence[P], is_done: Callable[[P], bool], is_ahead: Callable[[P], bool]) -> None:
        """Wait until each part is done or its store is given up.

        While at least one part is ahead (`is_ahead`), the time counts against each store whose part is not done. A
        store is given up when its limit is reached. While no part is ahead, all stores are equally slow, and no time is
        counted.
        """
        with self.changed:
            while late := [part.lane for part in parts if part.lane.failure is None and not is_done(part)]:
                if not any(is_ahead(part) for part in parts):
                    self.changed.wait()
                    continue
                left_ms = min(lane.limit_ms - lane.held_up_ms for lane in late)
                if left_ms <= 0:
                    for lane in late:
                        if lane.held_up_ms >= lane.limit_ms:
                            self.give_up(lane, too_slow(lane.held_up_ms, lane.limit_ms))
                    continue
                began_ms = self._clock.monotonic_ms()
                self._clock.wait(self.changed, left_ms)
                waited_ms = self._clock.monotonic_ms() - began_ms
                for lane in late:
                    lane.held_up_ms += waited_ms

    def errors(self) -> dict[StoreId, BaseException]:
        """Return the error of each store that was given up."""
        return {lane.store: lane.failure for lane in self._lanes.values() if lane.failure is not None}

    def failures(self) -> dict[StoreId, str]:
        """Return the reason, as a short text, for each store that was given up."""
        return {store: reason(error) for store, error in self.errors().items()}

    def too_slow(self) -> frozenset[StoreId]:
        """Return the stores that were given up because they delayed the task for too long."""
        return frozenset(store for store, error in self.errors().items() if isinstance(error, RequestTimedOut))

    def of_another_incarnation(self) -> frozenset[StoreId]:
        """Return the stores that were wiped or swapped during the task. They have lost all objects of the task."""
        return wiped_or_swapped(self.errors())

    def _lane(self, store: StoreId) -> StoreLane:
        lane = self._lanes.get(store)
        if lane is None:
            limit_ms = self._lag_time_max_ms
            if store in self._catching_up:
                limit_ms = min(limit_ms, CATCHING_UP_WAIT_MS)
            lane = self._lanes[store] = StoreLane(store, self._incarnations[store], limit_ms)
            if store in self._left_out:
                lane.failure = StoreUnavailable("it was too slow for an earlier write of this process")
        return lane


def too_slow(held_up_ms: int, limit_ms: int) -> RequestTimedOut:
    """Return the error of a store for which a task has waited `held_up_ms`, and so reached its limit, `limit_ms`."""
    return RequestTimedOut(
        f"the write waited {duration(held_up_ms)} for this store, the limit is {duration(limit_ms)} "
        "(replica.lag.time.max.ms)"
    )


def wiped_or_swapped(errors: Mapping[StoreId, BaseException]) -> frozenset[StoreId]:
    """Return the stores whose error says that they have another INCARNATION than the registered one."""
    return frozenset(store for store, error in errors.items() if isinstance(error, AnotherIncarnation))


def reason(failure: BaseException) -> str:
    """Return the message of a SparklogError, or the repr of any other failure."""
    return str(failure) if isinstance(failure, SparklogError) else repr(failure)


def most_hopeful(failures: Sequence[tuple[StoreId, BaseException]]) -> BaseException:
    """Return one error for a write that failed on every store. Its type is that of a retriable error, if there is one.

    Its message names all stores. But if there is only one store, its error is returned unchanged. So is an interrupt:
    any error that is not an `Exception`.
    """
    for _, failure in failures:
        if len(failures) == 1 or not isinstance(failure, Exception):
            return failure
    chosen = min((failure for _, failure in failures), key=_hope)
    reasons = "; ".join(f"store {store}: {reason(failure)}" for store, failure in failures)
    kind = type(chosen) if isinstance(chosen, SparklogError) else StoreUnavailable
    error = kind(f"wanted to write to {len(failures)} stores, found none that takes it ({reasons})")
    error.__cause__ = chosen
    return error


def _hope(failure: BaseException) -> int:
    if not isinstance(failure, SparklogError):
        return 2
    return 0 if failure.retriable else 1
