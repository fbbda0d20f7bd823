"""Processor time by step: functions are wrapped in place, and a step gets its own time without that of its callees."""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

Place = tuple[str, Any, str]  # the step, the module or class, and the function's name in it


class StepClock:
    """Adds up the time of steps over all threads. A step that runs inside another one counts only for itself."""

    def __init__(self, now_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self.spent_ns: Counter[str] = Counter()
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._thread = threading.local()

    @contextmanager
    def watching(self, places: Sequence[Place]) -> Iterator[None]:
        """Wrap the functions until the block ends. Raises AttributeError if one no longer exists."""
        with ExitStack() as patched:
            for step, owner, name in places:
                patched.enter_context(mock.patch.object(owner, name, self.timed(step, getattr(owner, name))))
            yield

    def timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, with its time added to `step`."""

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
        """For each step that this thread is in, the time of its callees."""
        found: list[int] | None = getattr(self._thread, "callees", None)
        if found is None:
            found = self._thread.callees = []
        return found
