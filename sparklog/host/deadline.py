"""The deadline of a call to a store, and its pauses between attempts."""

from __future__ import annotations

import time
from collections.abc import Iterator

from sparklog.core.pauses import longer
from sparklog.host.dice import jittered

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 2.0


class Deadline:
    """A point in monotonic time after which a call gives up."""

    __slots__ = ("_at_s", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._at_s = time.monotonic() + timeout_ms / 1000

    def extend(self, more_ms: int) -> None:
        """Postpone the deadline by `more_ms`, for a call that has more to do than it knew at first."""
        self.timeout_ms += more_ms
        self._at_s += more_ms / 1000

    def left_s(self) -> float:
        """Seconds until the deadline; 0 if it has passed."""
        return max(0.0, self._at_s - time.monotonic())

    def spent_ms(self) -> int:
        """Return the whole milliseconds since this object was created, but never more than the full timeout."""
        return int(self.timeout_ms - self.left_s() * 1000)

    def passed(self) -> bool:
        return self.left_s() == 0.0


def tries(deadline: Deadline) -> Iterator[int]:
    """Yield attempt numbers 1, 2, … until the deadline, with a pause before each further attempt, longer each time.

    The number 1 is yielded even if the deadline has passed.
    """
    longest_s = _FIRST_PAUSE_S
    number = 1
    while True:
        yield number
        pause_s = jittered(longest_s)
        if pause_s >= deadline.left_s():
            return
        time.sleep(pause_s)
        number += 1
        longest_s = longer(longest_s, _LONGEST_PAUSE_S)
