"""A bell that wakes a thread: any thread may ring it, and so may a signal handler."""

from __future__ import annotations

import queue


class Bell:
    """Wakes the one thread that waits for it. A ring gives no reason: the caller notes the reason before it rings.

    A signal handler may ring while the same thread waits. A `threading.Event` can't do that: its lock may be held.
    """

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """End the present wait, or the next one if no thread waits."""
        self._rings.put(None)

    def wait(self, longest_ms: float | None = None) -> None:
        """Wait at most `longest_ms` for a ring; None has no limit. Returns at once if it rang since the last wait."""
        try:
            self._rings.get(timeout=None if longest_ms is None else max(0.0, longest_ms) / 1000)
            while True:
                self._rings.get_nowait()  # several rings wake the thread once
        except queue.Empty:
            return
