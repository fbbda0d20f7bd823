"""A bell that wakes a thread: any thread may ring it, and so may a signal handler."""

from __future__ import annotations

import queue


class Bell:
    """Wakes the one thread that waits for it. A ring carries no reason: note the reason before you ring.

    A signal handler may ring while the thread that it interrupts is waiting. A `threading.Event` can't be set then: the
    waiting thread may hold its lock.
    """

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Wake the thread that waits. If no thread waits, the next wait ends at once."""
        self._rings.put(None)

    def wait(self, longest_ms: float | None = None) -> None:
        """Wait for a ring, at most `longest_ms` (None: no limit). Returns at once if one came since the last wait."""
        try:
            self._rings.get(timeout=None if longest_ms is None else max(0.0, longest_ms) / 1000)
            while True:
                self._rings.get_nowait()  # several rings wake the thread once
        except queue.Empty:
            return
