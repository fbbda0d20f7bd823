"""The memory of a producer: records that wait to be sent, records under way, and when to take the waiting ones."""

from __future__ import annotations

from dataclasses import dataclass

from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.producing.producer_settings import ProducerSettings


@dataclass(frozen=True, slots=True)
class FlushLimits:
    """The limits on a topic's waiting records (F-01): `messages`, their number, and `ms`, how long they may wait.

    None means no limit.
    """

    messages: int | None
    ms: int | None


def flush_limits(config: TopicConfig) -> FlushLimits | None:
    """The limits from a topic's `flush.messages` and `flush.ms`; None if neither is set."""
    if config.flush_messages is None and config.flush_ms is None:
        return None
    return FlushLimits(config.flush_messages, config.flush_ms)


class ProducerBuffer:
    """Counts a producer's records, and decides when to send the waiting ones. It does not contain the records.

    `waiting_bytes` and `waiting_records` count the records that wait; the first of them has waited since `since_ms`.
    `room_bytes`: the free bytes of the buffer. When one topic reaches a limit of its own, all waiting records are due,
    because they go into one commit. Times are from a monotonic clock. Not thread-safe.
    """

    __slots__ = ("_limit_ms", "_settings", "room_bytes", "since_ms", "waiting_bytes", "waiting_records")

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self.room_bytes = settings.buffer_memory
        self.waiting_bytes = self.waiting_records = 0
        self.since_ms = 0
        self._limit_ms: int | None = None  # when the first limit of a topic is reached

    def add(self, size_bytes: int) -> bool:
        """Count one more waiting record. The caller sets `since_ms` with the first one.

        Returns True if a sender should check `due_ms`: this is the only waiting record, or it brings the waiting bytes
        to the setting `batch_size`.
        """
        before = self.waiting_bytes
        self.waiting_bytes = now = before + size_bytes
        self.room_bytes -= size_bytes
        self.waiting_records += 1
        return self.waiting_records == 1 or before < self._settings.batch_size <= now

    def limit(self, limits: FlushLimits, records: int, since_ms: int) -> bool:
        """Note that `records` records of one topic wait, the first of them since `since_ms`.

        `limits`: the limits of the topic. Returns True if the waiting records are due earlier than before, so that a
        sender should check `due_ms`.
        """
        times = [] if limits.ms is None else [since_ms + limits.ms]
        if limits.messages is not None and records >= limits.messages:
            times.append(since_ms)
        if not times or (self._limit_ms is not None and self._limit_ms <= min(times)):
            return False
        self._limit_ms = min(times)
        return True

    def due_ms(self, *, urged: bool) -> int | None:
        """Return the time at which to take the waiting records; None if no record waits.

        `urged`: a caller waits for these records to be sent, or for room in the buffer.
        """
        if not self.waiting_records:
            return None
        if urged or self.waiting_bytes >= self._settings.batch_size:
            return self.since_ms
        lingered_ms = self.since_ms + self._settings.linger_ms
        return lingered_ms if self._limit_ms is None else min(lingered_ms, self._limit_ms)

    def take(self) -> int:
        """Count all waiting records as under way. Returns their number of bytes."""
        taken, self.waiting_bytes, self.waiting_records = self.waiting_bytes, 0, 0
        self._limit_ms = None
        return taken

    def release(self, size_bytes: int) -> None:
        """Free the room of this many bytes that were under way: their records are settled."""
        self.room_bytes += size_bytes
