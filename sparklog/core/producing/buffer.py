"""The memory of a producer: what waits to be sent, what is under way, and when it is time to take what waits."""

from __future__ import annotations

from sparklog.core.producing.settings import ProducerSettings


class ProducerBuffer:
    """Counts the bytes of records. Times are those of a monotonic clock. Not thread-safe.

    `waiting_bytes` and `waiting_records` wait since `since_ms`; `under_way_bytes` were taken and not settled yet.
    """

    __slots__ = ("_settings", "since_ms", "under_way_bytes", "waiting_bytes", "waiting_records")

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self.waiting_bytes = self.waiting_records = self.under_way_bytes = 0
        self.since_ms = 0

    def has_room(self, size_bytes: int) -> bool:
        """Whether a record of this size fits beside the others."""
        return self.waiting_bytes + self.under_way_bytes + size_bytes <= self._settings.buffer_memory

    def add(self, size_bytes: int) -> bool:
        """Count a record that waits. Returns whether a sender should look: it is the first, or enough wait now.

        The caller sets `since_ms` with the first one.
        """
        before = self.waiting_bytes
        self.waiting_bytes = now = before + size_bytes
        self.waiting_records += 1
        return self.waiting_records == 1 or before < self._settings.batch_size <= now

    def due_ms(self, *, urged: bool) -> int | None:
        """When what waits is to be taken; None if nothing waits. `urged`: somebody waits for it, or for room."""
        if not self.waiting_records:
            return None
        if urged or self.waiting_bytes >= self._settings.batch_size:
            return self.since_ms
        return self.since_ms + self._settings.linger_ms

    def take(self, size_bytes: int) -> None:
        """Everything that waits is under way from now on; its records have `size_bytes` together."""
        self.waiting_bytes = self.waiting_records = 0
        self.under_way_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """So many bytes that were under way are settled."""
        self.under_way_bytes -= size_bytes
