"""A hook for the end of the program, at which threads and executors still work."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any


def before_exit(call: Callable[[], None]) -> None:
    """Call it when the main thread ends, before the interpreter stops executors and waits for threads.

    `atexit` comes too late: by then executors take nothing, and newer interpreters start no threads. The hook that
    comes before them is what `concurrent.futures` itself uses; of two, the one that was registered last comes first.
    """
    register: Any = getattr(threading, "_register_atexit", atexit.register)
    register(call)
