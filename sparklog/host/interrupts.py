"""Ctrl-C for a command that runs until it is interrupted.

Python drops exceptions raised while it finalizes a file or an HTTP reply (`iobase_finalize`), even the
KeyboardInterrupt of a signal that arrives just then. So an interrupt is also noted, and the command checks for it
between its rounds.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if SIGINT has come since, even if its own exception was lost.

    Changes nothing outside the main thread, and nothing if the process ignores SIGINT.
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
