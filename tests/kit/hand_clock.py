"""A clock that only a test moves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

START_MS = 1_700_000_000_000


@dataclass
class HandClock:
    """Wall clock and monotonic clock in one (`sparklog.host.clock.Clock`). Move it by `at_ms`.

    A pause takes no time of the machine, but the clock moves by it, and then the next of `events` happens, if any is
    left. `look_ms` passes whenever a deadline is looked at, for code that waits for other threads meanwhile.
    """

    at_ms: int = START_MS
    events: list[Callable[[], object]] = field(default_factory=list)
    look_ms: int = 0
    pauses: int = 0

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        self.at_ms += self.look_ms
        return self.at_ms

    def pause(self, duration_ms: float, bell: object = None) -> None:
        self.at_ms += math.ceil(duration_ms)
        self.pauses += 1
        if self.events:
            self.events.pop(0)()
