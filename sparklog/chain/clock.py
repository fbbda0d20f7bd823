"""Time as the shells see it. Safety never depends on it; it says when to try again and when to stop."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Protocol

FIRST_PAUSE_MS = 10
LONGEST_PAUSE_MS = 2_000


class Clock(Protocol):
    """Wall clock for time stamps, monotonic clock for deadlines, and a pause between tries."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...

    def pause(self, duration_ms: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def pause(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)


class Deadline:
    """A point of the monotonic clock after which a call gives up."""

    __slots__ = ("_at_ms", "clock", "timeout_ms")

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self.clock = clock
        self.timeout_ms = timeout_ms
        self._at_ms = clock.monotonic_ms() + timeout_ms

    def left_ms(self) -> int:
        """Milliseconds until then; negative if it passed."""
        return self._at_ms - self.clock.monotonic_ms()

    def passed(self) -> bool:
        return self.left_ms() <= 0


def pauses() -> Iterator[float]:
    """Growing, jittered pauses between tries, in milliseconds, without end."""
    longest = float(FIRST_PAUSE_MS)
    while True:
        yield random.uniform(longest / 2, longest)
        longest = min(longest * 2, LONGEST_PAUSE_MS)
