"""The memory of a producer: what waits to be sent, what is under way, and when it is time to take what waits."""

from __future__ import annotations

from sparklog.core.producing.settings import ProducerSettings


class ProducerBuffer:
    """Counts the bytes of records. Times are those of a monotonic clock. Not thread-safe.

    `waiting_bytes` and `waiting_records` have waited since `since_ms`. `room_bytes` are free: neither waiting, nor
    under way.
    """

    __slots__ = ("_settings", "room_bytes", "since_ms", "waiting_bytes", "waiting_records")

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self.room_bytes = settings.buffer_memory
        self.waiting_bytes = self.waiting_records = 0
        self.since_ms = 0

    def add(self, size_bytes: int) -> bool:
        """Count a record that waits. Returns whether a sender should look: it is the first, or enough wait now.

        The caller sets `since_ms` with the first one.
        """
        before = self.waiting_bytes
        self.waiting_bytes = now = before + size_bytes
        self.room_bytes -= size_bytes
        self.waiting_records += 1
        return self.waiting_records == 1 or before < self._settings.batch_size <= now

    def due_ms(self, *, urged: bool) -> int | None:
        """When what waits is to be taken; None if nothing waits. `urged`: somebody waits for it, or for room."""
        if not self.waiting_records:
            return None
        if urged or self.waiting_bytes >= self._settings.batch_size:
            return self.since_ms
        return self.since_ms + self._settings.linger_ms

    def take(self) -> int:
        """Everything that waits is under way from now on. Returns how many bytes that is."""
        taken, self.waiting_bytes, self.waiting_records = self.waiting_bytes, 0, 0
        return taken

    def release(self, size_bytes: int) -> None:
        """This many bytes that were under way are settled."""
        self.room_bytes += size_bytes
