"""A bell that wakes a thread: any thread may ring it, and so may a signal handler."""

from __future__ import annotations

import queue


class Bell:
    """Wakes the one thread that waits for it. It does not say why it rang: the caller notes that before it rings.

    A signal handler may ring while the same thread waits. A `threading.Event` could not do that: its lock may be held.
    """

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """End the present wait, or else the next one."""
        self._rings.put(None)

    def wait(self, longest_ms: float | None = None) -> None:
        """Wait until it rings, or has rung since the last wait, but not longer than this."""
        try:
            self._rings.get(timeout=None if longest_ms is None else max(0.0, longest_ms) / 1000)
            while True:
                self._rings.get_nowait()  # several rings wake once
        except queue.Empty:
            return
