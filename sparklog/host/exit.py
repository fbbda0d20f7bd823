"""A hook for the end of the program, called while threads and executors still work."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any


def at_program_end(call: Callable[[], None]) -> None:
    """Call `call` when the main thread ends, and once more after all other threads have ended.

    The second call is for the work that those threads did meanwhile. `atexit` alone comes too late: by then executors
    take no tasks, and newer interpreters start no threads. `concurrent.futures` registered its own hook earlier, so
    that hook runs after this one.
    """
    register: Any = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(call)
    atexit.register(call)
