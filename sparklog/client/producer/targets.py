"""The topics that a producer sends to, and records as they wait: checked, in bytes, with their size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparklog.client.connection import Connection
from sparklog.client.producer.waiting_records import Cells, Header, Target, as_bytes, as_headers
from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.core.producing.settings import RECORD_BYTES
from sparklog.core.reading.plan import topic_of
from sparklog.core.state import ClusterState
from sparklog.core.topic_names import check_not_internal
from sparklog.host.clock import now_ms, now_us

Serializer = Callable[[Any], bytes | str | None]


class Targets:
    """Topics by name. Safe for threads: a topic that two look up at once is looked up twice."""

    def __init__(
        self,
        connection: Connection,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
    ) -> None:
        """The serializers make bytes or text of a key and of a value. None stays None: no key, and a tombstone.

        Raises InvalidInput unless they can be called.
        """
        for name, given in (("key_serializer", key_serializer), ("value_serializer", value_serializer)):
            if given is not None and not callable(given):
                raise InvalidInput(f"{name}: wanted a function of one argument, found {type(given).__name__}")
        self._connection = connection
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._known: dict[str, Target] = {}

    def record(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Sequence[Header] | None,
        timestamp_ms: int | None,
        partition: int | None,
    ) -> tuple[Target, Cells, int]:
        """A record to send: its topic, its cells, and how many bytes of the buffer it takes.

        Raises what the serializers raise, and RecordTooLarge, InvalidRecord, InvalidInput, UnknownTopicOrPartition.
        """
        target = self._known.get(topic) or self._found(self._connection.follower.state, topic)
        if self._value_serializer is not None and value is not None:
            value = self._value_serializer(value)
        if self._key_serializer is not None and key is not None:
            key = self._key_serializer(key)
        body = value if type(value) is bytes else as_bytes("value", value)
        name = key if key is None or type(key) is bytes else as_bytes("key", key)
        size = (len(body) if body else 0) + (len(name) if name else 0)
        listed: list[Header] | None = None
        if headers:
            listed, more = as_headers(headers)
            size += more
        if size > target.max_message_bytes or partition is not None or target.needs_key:
            self._check(target, name, size, partition)
        timestamp_us = now_us() if timestamp_ms is None else target.check_timestamp(timestamp_ms, now_ms())
        return target, (name, body, listed, timestamp_us, partition), size + RECORD_BYTES

    def knows(self, topic: str) -> bool:
        """Whether this topic was looked up."""
        return topic in self._known

    def look_up(self, topic: str) -> None:
        """Find a topic. Raises UnknownTopicOrPartition."""
        self._found(self._connection.follower.state, topic)

    def forget(self) -> None:
        """Look topics up again: the chain was read, so they may have changed."""
        self._known.clear()

    def _found(self, state: ClusterState, topic: str) -> Target:
        """A topic; the chain is read if it is not known here. Raises UnknownTopicOrPartition."""
        if not isinstance(topic, str):
            raise InvalidInput(f"topic: wanted its name, found {topic!r}")
        if state.topic_named(topic) is None:
            state = self._connection.follower.catch_up().state
        check_not_internal(topic)
        found = topic_of(state, topic)
        target = self._known[topic] = Target(found, state.topic_config(found))
        return target

    def _check(self, target: Target, key: bytes | None, size_bytes: int, partition: int | None) -> None:
        """Refuse a record that its topic does not take, as the topic is now."""
        try:
            target.check(key, size_bytes, partition)
        except SparklogError:
            newest = self._connection.follower.catch_up().state
            self._found(newest, target.topic).check(key, size_bytes, partition)
