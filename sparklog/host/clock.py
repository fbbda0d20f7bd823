"""Time for the code that does I/O (the shells).

Time only decides when to try again and when to stop: safety never depends on it.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

from sparklog.host.bell import Bell


class Clock(Protocol):
    """A wall clock for timestamps, a monotonic clock for deadlines, and a pause between attempts."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...

    def pause(self, duration_ms: float, bell: Bell | None = None) -> None:
        """Wait `duration_ms`, or until `bell` rings."""
        ...


class WaitingClock(Protocol):
    """A monotonic clock that can also wait for other threads."""

    def monotonic_ms(self) -> int: ...

    def wait(self, changed: threading.Condition, longest_ms: int) -> None:
        """Wait until another thread notifies `changed`, at most `longest_ms`. The caller holds the condition's lock."""
        ...


class SystemClock:
    """The clocks of the operating system."""

    def now_ms(self) -> int:
        return now_ms()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def pause(self, duration_ms: float, bell: Bell | None = None) -> None:
        if bell is None:
            time.sleep(duration_ms / 1000)
        else:
            bell.wait(duration_ms)

    def wait(self, changed: threading.Condition, longest_ms: int) -> None:
        changed.wait(longest_ms / 1000)


def now_ms() -> int:
    """Milliseconds since the epoch, by the wall clock."""
    return time.time_ns() // 1_000_000


def now_us() -> int:
    """Microseconds since the epoch, by the wall clock."""
    return time.time_ns() // 1_000


def monotonic_s() -> float:
    """Seconds on a clock that never goes back."""
    return time.monotonic()


def sleep_s(duration_s: float) -> None:
    """Wait `duration_s` seconds. Returns at once if it is negative."""
    time.sleep(max(0.0, duration_s))
