"""The stores that one task writes to. Each has a thread, so that all get the same bytes at the same time.

A store that fails is given up for the rest of the task. So is a store that delays the task for more than
`replica.lag.time.max.ms` in total. The delay is the time that the task waits for the store while at least one other
store is ahead. If all are late and none of them takes anything for STALLED_MS, all are given up. The write continues
with the other stores, and its commit names those that hold the objects.

A live store that is catching up also gets the new objects, because otherwise it could never catch up, but it may delay
the task for CATCHING_UP_WAIT_MS only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, Self, TypeVar

from sparklog.core.describe.readable import duration
from sparklog.core.errors import RequestTimedOut, SparklogError, StoreUnavailable
from sparklog.core.types import StoreId
from sparklog.host.clock import SystemClock, WaitingClock
from sparklog.host.daemon import in_daemon
from sparklog.log.incarnation import AnotherIncarnation
from sparklog.storage.object_store import ObjectStore

CATCHING_UP_WAIT_MS: Final = 500
STALLED_MS: Final = 300_000  # longer than the default timeout of stores that have one: for a disk that hangs
# Between looks for progress while all stores stall. A stopped process or a sleeping machine counts as one look.
STALL_LOOK_MS: Final = 5_000

_SYSTEM = SystemClock()


class OpensStores(Protocol):
    """Opens stores by id, such as `log.cluster_stores.Stores`.

    `get` raises KeyError for an unknown id, and the errors of opening a store.
    """

    def get(self, store: StoreId) -> ObjectStore: ...


@dataclass(slots=True, eq=False)
class StoreLane:
    """One store of a task, and its work.

    `failure` is the reason why the store was given up, or None. `held_up_ms` is the total time that the task has waited
    for this store while another one was ahead; `limit_ms` is its limit. `incarnation` is the store's registered
    INCARNATION. `works`: begun and not yet finished. `has_thread`: a thread runs those that no caller runs.
    """

    store: StoreId
    incarnation: str
    limit_ms: int
    failure: BaseException | None = None
    held_up_ms: int = 0
    works: list[StoreWork] = field(default_factory=list)
    has_thread: bool = False


class StoreWork:
    """Work on one store, such as the copy of an object. `StoreLanes` performs it.

    `steps` is the work. It yields while there is nothing to do, and continues once `is_ready`. It is closed early if
    the store or the work is given up. `here`: the calling thread performs it, not the thread of the lane. `dropped`:
    this work was abandoned; the store may still do other work.
    """

    def __init__(self, lanes: StoreLanes, lane: StoreLane) -> None:
        self.lanes = lanes
        self.lane = lane
        self.here = False
        self.dropped = False
        self.steps = self.perform()

    def perform(self) -> Generator[None]:
        """Do the work. An error that it raises becomes the failure of the lane."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """True if the next step would do something. Called with the `StoreLanes.lock` held."""
        return True

    def free(self) -> None:
        """Free the memory of a work that was given up, whose step may hang. Called with the same lock."""

    @property
    def is_given_up(self) -> bool:
        return self.dropped or self.lane.failure is not None


W = TypeVar("W", bound=StoreWork)


class StoreLanes:
    """Context manager of one task's stores. On exit, abandons unfinished work, and gives up all stores.

    Call all methods but `opened` and `note_progress` from one thread.

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
        self.lock = threading.RLock()  # `with changed` would call Python code, where an interrupt would leave it locked
        self.changed = threading.Condition(self.lock)
        self._stores = stores
        self._incarnations = incarnations
        self._lag_time_max_ms = lag_time_max_ms
        self._catching_up = catching_up
        self._left_out = left_out
        self._clock = clock
        self._lanes: dict[StoreId, StoreLane] = {}
        self._progress = 0  # a count of what stores have taken

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Never waits for a lane's thread."""
        for lane in self._lanes.values():
            self.give_up(lane, StoreUnavailable("the write was given up"))
        with self.lock:
            here = [work for lane in self._lanes.values() for work in lane.works if work.here]
        for work in here:
            self._close(work)

    def of(self, stores: Iterable[StoreId]) -> list[StoreLane]:
        """Return the lanes of these stores, in the same order."""
        return [self._lane(store) for store in stores]

    def opened(self, lane: StoreLane) -> ObjectStore:
        """Return the store of a lane."""
        return self._stores.get(lane.store)

    # ---- work ---------------------------------------------------------------------------------------

    def begin(self, work: StoreWork, *, here: bool) -> None:
        """Begin some work: with `here` in the calling thread, by calls of `advance`; otherwise in the lane's thread.

        Does nothing if the store was given up.
        """
        with self.lock:
            if work.lane.failure is not None:
                return
            work.here = here
            work.lane.works.append(work)
        if here:
            self.advance(work)
        else:
            self.continue_in_thread(work)

    def advance(self, work: StoreWork) -> None:
        """Let work of the calling thread do what it can now."""
        with self.lock:
            goes_on = work in work.lane.works and not work.is_given_up and work.is_ready()
        if goes_on:
            self._step(work)

    def continue_in_thread(self, work: StoreWork) -> None:
        """Let the lane's thread do all further steps of this work."""
        lane = work.lane
        with self.lock:
            if not lane.has_thread and lane.works:
                lane.has_thread = True  # before it is: an interrupt may come while it starts
                try:
                    in_daemon(partial(self._perform_all, lane), f"sparklog-store-{lane.store}")
                except RuntimeError:
                    lane.has_thread = False
                    raise
            work.here = False
            self.changed.notify_all()

    def drop(self, work: StoreWork) -> None:
        """Give up work that has not ended. Never waits for the lane's thread."""
        with self.lock:
            work.dropped = True
            work.free()
            self.changed.notify_all()
        if work.here:
            self._close(work)

    def give_up(self, lane: StoreLane, failure: BaseException) -> None:
        """Ask the store for nothing more in this task. Does nothing if it was given up before."""
        with self.lock:
            if lane.failure is None:
                lane.failure = failure
                for work in lane.works:
                    work.free()
            self.changed.notify_all()

    def _perform_all(self, lane: StoreLane) -> None:
        """Perform the lane's work, in its thread, until there is none."""
        while (work := self._next_work(lane)) is not None:
            if work.is_given_up:
                self._close(work)
            else:
                self._step(work)

    def _next_work(self, lane: StoreLane) -> StoreWork | None:
        """Wait until work of the lane's thread is ready or given up, and return the oldest. None if there is none."""
        with self.lock:
            while True:
                has_work = False
                for work in lane.works:
                    if not work.here:
                        if work.is_given_up or work.is_ready():
                            return work
                        has_work = True
                if not has_work:
                    lane.has_thread = False
                    return None
                self.changed.wait()

    def _step(self, work: StoreWork) -> None:
        try:
            next(work.steps)
            return
        except StopIteration:
            pass
        except BaseException as error:
            self.give_up(work.lane, error)
        self._close(work)

    def _close(self, work: StoreWork) -> None:
        """End a work that has ended, or that was given up, or that an interrupt has left between two steps."""
        try:
            work.steps.close()
        except BaseException as error:
            self.give_up(work.lane, error)
        with self.lock:
            if work in work.lane.works:
                work.lane.works.remove(work)
            self.changed.notify_all()

    # ---- waiting ------------------------------------------------------------------------------------

    def note_progress(self) -> None:
        """Note that a store has taken something. Call with `lock` held."""
        self._progress += 1
        self.changed.notify_all()

    def wait(self, works: Sequence[W], is_done: Callable[[W], bool], is_ahead: Callable[[W], bool]) -> None:
        """Wait until each work is done or its store is given up.

        While at least one work is ahead (`is_ahead`), the time counts against each store whose work is not done. A
        store is given up when its limit is reached. While none is ahead, all stores are equally slow, and only time
        without any progress counts: after STALLED_MS all are given up.
        """
        stalled_ms, progress = 0, -1
        with self.lock:
            while late := [work.lane for work in works if work.lane.failure is None and not is_done(work)]:
                some_ahead = any(is_ahead(work) for work in works)
                if some_ahead or progress != self._progress:
                    stalled_ms, progress = 0, self._progress
                if some_ahead:
                    left_ms = min(lane.limit_ms - lane.held_up_ms for lane in late)
                else:
                    left_ms = min(STALLED_MS - stalled_ms, STALL_LOOK_MS)
                if left_ms <= 0:
                    for lane in late:
                        if not some_ahead:
                            self.give_up(lane, stalled())
                        elif lane.held_up_ms >= lane.limit_ms:
                            self.give_up(lane, too_slow(lane.held_up_ms, lane.limit_ms))
                    continue
                began_ms = self._clock.monotonic_ms()
                self._clock.wait(self.changed, left_ms)
                waited_ms = self._clock.monotonic_ms() - began_ms
                if some_ahead:
                    for lane in late:
                        lane.held_up_ms += waited_ms
                else:
                    stalled_ms += min(waited_ms, STALL_LOOK_MS)

    # ---- outcome ------------------------------------------------------------------------------------

    def errors(self) -> dict[StoreId, BaseException]:
        """Return the error of each store that was given up."""
        return {lane.store: lane.failure for lane in self._lanes.values() if lane.failure is not None}

    def failures(self) -> dict[StoreId, str]:
        """Return the reason, as a short text, for each store that was given up."""
        return {store: reason(error) for store, error in self.errors().items()}

    def slow_stores(self) -> frozenset[StoreId]:
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


def stalled() -> RequestTimedOut:
    """Return the error of a store that took nothing for STALLED_MS while no other store was ahead of it."""
    return RequestTimedOut(f"none of the stores of this write took anything for {duration(STALLED_MS)}")


def wiped_or_swapped(errors: Mapping[StoreId, BaseException]) -> frozenset[StoreId]:
    """Return the stores whose error says that they have another INCARNATION than the registered one."""
    return frozenset(store for store, error in errors.items() if isinstance(error, AnotherIncarnation))


def reason(failure: BaseException) -> str:
    """Return the message of a SparklogError, or the repr of any other failure."""
    return str(failure) if isinstance(failure, SparklogError) else repr(failure)


def most_hopeful(failures: Sequence[tuple[StoreId, BaseException]]) -> BaseException:
    """Return one error for a write that failed on every store. Its type is that of a retriable error, if there is one.

    `failures`: at least one. Its message names all stores. Its type is StoreUnavailable if none of them is a
    SparklogError. But if there is only one store, its error is returned unchanged. So is an interrupt: any error that
    is not an `Exception`.
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
