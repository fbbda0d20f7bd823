"""A hook for the end of the program, called while threads and executors still work."""

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
