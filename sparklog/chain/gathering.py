"""Whether the next entry waits a moment for more commands. Decides; reads no clock.

Entries are written one after the other, and an entry of many commands takes as long as one of few. Callers who were
just told a result tend to submit again at once. Without a wait the first of them gets an entry of its own, and all
others wait for two entries instead of one.
"""

from __future__ import annotations

LOOKS = 16  # a look for more commands lasts this part of what the last entry took
SHORTEST_LOOK_MS = 1.0  # where entries are quick, nothing is gained by waiting
LONGEST_LOOK_MS = 10.0


class Gathering:
    """After each entry: how many commands may come, and for how long it pays to wait for them."""

    def __init__(self) -> None:
        self._told = self._expected = self._seen = 0
        self._until_ms: float = 0.0
        self._look_ms = 0.0

    def expect(self, told: int, waiting: int, took_ms: int, now_ms: int) -> None:
        """An entry that took `took_ms` is done; `told` callers may come back to those who are `waiting`."""
        self._told, self._expected, self._seen = told, told + waiting, waiting
        self._look_ms = min(took_ms / LOOKS, LONGEST_LOOK_MS)
        self._until_ms = now_ms + self._look_ms

    def is_complete(self, waiting: int) -> bool:
        """Whether as many wait as may be hoped for."""
        return waiting >= self._expected

    def look_ms(self, waiting: int, now_ms: int) -> float | None:
        """How long to wait for more than are `waiting`, before the next look; None: not at all."""
        if self._look_ms < SHORTEST_LOOK_MS or self.is_complete(waiting) or now_ms > self._until_ms:
            return None
        self._seen = waiting
        return self._look_ms

    def looked(self, waiting: int, now_ms: int) -> None:
        """That wait is over. Another pays if callers come back: then more came than would at any time."""
        came = waiting - self._seen
        self._until_ms = now_ms if came * LOOKS >= self._told else 0.0
