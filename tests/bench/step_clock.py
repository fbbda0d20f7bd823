"""Processor time by step: functions are wrapped where they stand, and each step gets its own time, not its callees'."""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

Place = tuple[str, Any, str]  # the step, the module or class, and the name of the function in it


class StepClock:
    """Adds up the time of steps over all threads. A step that runs inside another one counts for itself alone."""

    def __init__(self, now_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self.spent_ns: Counter[str] = Counter()
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._thread = threading.local()

    @contextmanager
    def watching(self, places: Sequence[Place]) -> Iterator[None]:
        """Wrap the functions until the block ends. Raises AttributeError if one is not there any more."""
        with ExitStack() as patched:
            for step, owner, name in places:
                patched.enter_context(mock.patch.object(owner, name, self.timed(step, getattr(owner, name))))
            yield

    def timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose time is added to `step`."""

        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            callees: list[int] = self._callees()
            callees.append(0)
            start_ns = self._now_ns()
            try:
                return function(*arguments, **named)
            finally:
                took_ns = self._now_ns() - start_ns
                own_ns = took_ns - callees.pop()
                if callees:
                    callees[-1] += took_ns
                with self._lock:
                    self.spent_ns[step] += own_ns

        return run

    def _callees(self) -> list[int]:
        """The time of the callees of each step that this thread is in."""
        found: list[int] | None = getattr(self._thread, "callees", None)
        if found is None:
            found = self._thread.callees = []
        return found
