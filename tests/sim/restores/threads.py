"""Stand-ins for `threading` and thread pools: actors of the scheduler, and locks that they wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from tests.sim.restores.scheduler import Process, Scheduler

_NOBODY = Process("nobody")


class SimThreads:
    """Makes the stand-ins for one run."""

    def __init__(self, scheduler: Callable[[], Scheduler]) -> None:
        self._scheduler = scheduler

    def namespace(self) -> SimpleNamespace:
        """What takes the place of the module `threading`."""
        made = self._scheduler
        return SimpleNamespace(
            Thread=lambda *args, **kwargs: SimThread(made(), *args, **kwargs),
            Lock=lambda: SimLock(made),
            RLock=lambda: SimRLock(made),
            Condition=lambda lock=None: SimCondition(made, lock),
            Event=lambda: SimEvent(made),
            current_thread=lambda: made().current,
        )


class SimThread:
    """A thread of the process whose actor starts it."""

    def __init__(
        self,
        scheduler: Scheduler,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        daemon: bool | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._work = target
        self._args, self._kwargs = tuple(args), kwargs or {}
        self.name = name or "thread"
        self._fiber: Any = None
        self._ended = False

    def start(self) -> None:
        parent = self._scheduler.current
        process = _NOBODY if parent is None else parent.process
        self._fiber = self._scheduler.spawn(f"{process.name}/{self.name}", process, self._run)

    def _run(self) -> None:
        try:
            assert self._work is not None
            self._work(*self._args, **self._kwargs)
        finally:
            self._ended = True

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._ended and not self._fiber.done

    def join(self, timeout: float | None = None) -> None:
        if self.is_alive():
            self._scheduler.wait(lambda: not self.is_alive(), None if timeout is None else timeout * 1000)


class SimLock:
    """A lock. Taking a free one is no step."""

    def __init__(self, scheduler: Callable[[], Scheduler]) -> None:
        self._scheduler = scheduler
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        while self._held:
            if not blocking:
                return False
            if not self._scheduler().wait(lambda: not self._held, None if timeout < 0 else timeout * 1000):
                return False
        self._held = True
        return True

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class SimRLock:
    """A lock that its owner may take again."""

    def __init__(self, scheduler: Callable[[], Scheduler]) -> None:
        self._scheduler = scheduler
        self._owner: object = None
        self.depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = self._scheduler().current
        while self.depth and self._owner is not me:
            if not blocking:
                return False
            if not self._scheduler().wait(lambda: not self.depth, None if timeout < 0 else timeout * 1000):
                return False
        self._owner = me
        self.depth += 1
        return True

    def release(self) -> None:
        self.depth -= 1

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class SimCondition:
    """A condition; every wait may also end without a reason, as the real one's."""

    def __init__(self, scheduler: Callable[[], Scheduler], lock: Any = None) -> None:
        self._scheduler = scheduler
        self._lock = SimRLock(scheduler) if lock is None else lock
        self._rings = 0
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def wait(self, timeout: float | None = None) -> bool:
        rings = self._rings
        self._lock.release()
        try:
            return self._scheduler().wait(lambda: self._rings != rings, None if timeout is None else timeout * 1000)
        finally:
            self._lock.acquire()

    def notify(self, n: int = 1) -> None:
        self._rings += 1

    def notify_all(self) -> None:
        self._rings += 1

    def __enter__(self) -> bool:
        return bool(self._lock.__enter__())

    def __exit__(self, *exc: object) -> None:
        self._lock.__exit__(*exc)


class SimEvent:
    """An event."""

    def __init__(self, scheduler: Callable[[], Scheduler]) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._is_set or self._scheduler().wait(lambda: self._is_set, None if timeout is None else timeout * 1000)


class InlinePool:
    """As much of a ThreadPoolExecutor as the code under test uses: the caller does the work, one call after another."""

    def __init__(self, *settings: object, **options: object) -> None:
        pass

    def __enter__(self) -> InlinePool:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def map(self, call: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
        return [call(*each) for each in zip(*arguments, strict=False)]

    def submit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass
