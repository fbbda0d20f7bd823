"""A hook for the end of the program, at which threads and executors still work."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any


def at_program_end(call: Callable[[], None]) -> None:
    """Call it when the main thread ends, and once more after the other threads, which may have gone on.

    `atexit` alone comes too late: by then executors take nothing, and newer interpreters start no threads. The first
    hook is the one of `concurrent.futures`; of two calls, the one that was registered last comes first.
    """
    register: Any = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(call)
    atexit.register(call)
