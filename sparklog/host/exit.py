"""Hooks for the end of the program: one while threads and executors still work, one after their last work."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any


def at_program_end(call: Callable[[], None]) -> None:
    """Call `call` twice: when the main thread ends, and after all other non-daemon threads have ended.

    The second call covers the work that those threads did in between. The first is needed as well: later, executors
    accept no tasks, and newer interpreters start no threads. It precedes the hook by which `concurrent.futures` shuts
    its executors down, because that was registered earlier.
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
