"""Handles Ctrl-C in a command that runs until it is interrupted.

Python drops an exception that is raised while it finalizes a file or an HTTP reply (`iobase_finalize`). This may be the
KeyboardInterrupt of a signal that arrives just then. So the signal is noted here, and the command checks for it between
its rounds.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if SIGINT has arrived in this `with` block.

    It does so even if Python dropped the signal's own exception. The function does nothing outside the main thread, or
    if SIGINT has no handler in Python (for example, because the process ignores SIGINT).
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: None
        return
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        noted = True
        before(number, frame)

    def check() -> None:
        if noted:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
