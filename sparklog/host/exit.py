"""A hook for the end of the program, called while threads and executors still work."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any


def at_program_end(call: Callable[[], None]) -> None:
    """Call `call` when the main thread ends, and again after all other threads have ended, which may have run longer.

    `atexit` alone comes too late: by then executors take no tasks, and newer interpreters start no threads. The hook
    registered first is that of `concurrent.futures`; hooks are called in reverse order of registration.
    """
    register: Any = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(call)
    atexit.register(call)
