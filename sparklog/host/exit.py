"""Hooks for the end of the program: while threads and executors still work, and after the last work of theirs."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any


def at_program_end(call: Callable[[], None]) -> None:
    """Call `call` when the main thread ends, and once more after all other non-daemon threads have ended.

    The second call is for the work that those threads did meanwhile. It alone would be too late, because by then
    executors take no tasks, and newer interpreters start no threads. The hook of `concurrent.futures` was registered
    earlier, so it runs after the first call.
    """
    register: Any = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(call)
    atexit.register(call)


def at_very_end(call: Callable[[], None]) -> None:
    """Call `call` in the main thread after all calls of `at_program_end`, just before the interpreter ends."""
    _last.append(call)


_last: list[Callable[[], None]] = []


@atexit.register  # when this module is imported: functions that were registered later are called before
def _call_last() -> None:
    for call in _last:
        call()
