"""Decides whether the next entry waits a moment for more commands. Reads no clock.

Entries are written one after the other, and an entry with many commands takes as long as one with few. Callers that
just got a result tend to submit again at once. Without a wait, the first of these callers would get an entry to itself,
and all others would wait for two entries instead of one.
"""

from __future__ import annotations

LOOKS_PER_ENTRY = 16  # one look for more commands lasts a 16th of the time that the last entry took
SHORTEST_LOOK_MS = 1.0  # if entries are quick, waiting gains nothing
LONGEST_LOOK_MS = 10.0
FIRST_LOOKS = 4  # the first caller may be back up to this many looks later: callers are woken one after the other


class Gathering:
    """Estimates after each entry how many commands to expect, and how long it pays to wait for them."""

    def __init__(self) -> None:
        self._answered = self._expected = self._seen = 0
        self._until_ms: float = 0.0
        self._look_ms = 0.0

    def expect(self, answered: int, waiting: int, took_ms: int, now_ms: int) -> None:
        """Note that an entry with `answered` commands took `took_ms`, and that `waiting` commands wait already.

        The callers of the answered commands are expected to submit again.
        """
        self._answered, self._expected, self._seen = answered, answered + waiting, waiting
        self._look_ms = min(took_ms / LOOKS_PER_ENTRY, LONGEST_LOOK_MS)
        self._until_ms = now_ms + FIRST_LOOKS * self._look_ms

    def is_complete(self, waiting: int) -> bool:
        """True if all expected commands are among the `waiting` ones."""
        return waiting >= self._expected

    def look_ms(self, waiting: int, now_ms: int) -> float | None:
        """Return how long to wait, in ms, before counting the waiting commands again; None if waiting doesn't pay."""
        if self._look_ms < SHORTEST_LOOK_MS or self.is_complete(waiting) or now_ms > self._until_ms:
            return None
        self._seen = waiting
        return self._look_ms

    def looked(self, waiting: int, now_ms: int) -> None:
        """End a wait of `look_ms`: `waiting` commands wait by now.

        Another wait may follow only if enough commands came during this one: at least 1/LOOKS_PER_ENTRY of the number
        of commands in the last entry.
        """
        came = waiting - self._seen
        self._until_ms = now_ms if came * LOOKS_PER_ENTRY >= self._answered else 0.0
