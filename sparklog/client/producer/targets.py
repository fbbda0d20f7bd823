"""The topics that a producer sends to. Checks each record, serializes it to bytes, and computes its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Never, TypedDict

from sparklog.client.connection import Connection
from sparklog.client.kafka_names import refuse_unknown
from sparklog.client.producer.waiting_records import Cells, Header, as_bytes, as_headers
from sparklog.core.config.timestamp_bounds import timestamp_bounds
from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.decide.named_offsets import check_takes
from sparklog.core.describe.readable import exact_amount, numbered
from sparklog.core.errors import InvalidInput, InvalidRecord, RecordTooLarge, SparklogError, UnknownTopicOrPartition
from sparklog.core.lookup import topic_of
from sparklog.core.names.topic_names import check_not_internal
from sparklog.core.producing.buffer import flush_limits
from sparklog.core.producing.producer_settings import RECORD_BYTES
from sparklog.core.state import ClusterState, Topic
from sparklog.host.clock import now_ms, now_us

Serializer = Callable[[Any], bytes | str | None]
_TIMESTAMPS_END_MS: Final = (1 << 63) // 1000


class SendOptions(TypedDict, total=False):
    """Options of one record: each method `send` takes them, and passes them to `SendableTopics.record`.

    See `Producer.send`, which alone also takes `max_block_ms`.
    """

    key: object
    headers: Sequence[Header] | None
    timestamp_ms: int | None
    partition: int | None


class SendableTopic:
    """A topic as the producer knows it. `Producer.send` uses it to check each record of the topic.

    The check is made before a record waits, because one invalid record would make the write of its whole flush fail.
    `limits`: the topic's config `flush.messages` and `flush.ms`; None if neither is set.
    """

    __slots__ = ("_config", "limits", "max_message_bytes", "needs_key", "partitions", "topic")

    def __init__(self, topic: Topic, config: TopicConfig) -> None:
        self.topic = topic.name
        self.partitions = topic.partitions
        self.max_message_bytes = config.max_message_bytes
        self.needs_key = config.compact
        self.limits = flush_limits(config)
        self._config = config

    def check(self, key: bytes | None, size_bytes: int, partition: int | None) -> None:
        """Check a record of this topic; `size_bytes` is the size of its key, value and headers.

        Raises RecordTooLarge, InvalidRecord (a compacted topic needs a key), UnknownTopicOrPartition.
        """
        if size_bytes > self.max_message_bytes:
            raise RecordTooLarge(
                f"topic {self.topic}: wanted at most {exact_amount(self.max_message_bytes)} of key, value and headers "
                f"(max.message.bytes), found {exact_amount(size_bytes)}"
            )
        if self.needs_key and key is None:
            raise InvalidRecord(f"topic {self.topic} is compacted, so each record needs a key; found none")
        if partition is not None and not (type(partition) is int and 0 <= partition < self.partitions):
            raise UnknownTopicOrPartition(
                f"wanted partition {partition!r}, topic {self.topic} has {numbered(self.partitions)}"
            )

    def check_timestamp(self, timestamp_ms: object, now_ms: int) -> int:
        """Return the timestamp in microseconds.

        Raises InvalidRecord if it is no integer, too large for microseconds, or outside the topic's bounds around
        `now_ms`.
        """
        if type(timestamp_ms) is not int or abs(timestamp_ms) >= _TIMESTAMPS_END_MS:
            raise InvalidRecord(f"timestamp_ms: wanted milliseconds since 1970, found {timestamp_ms!r}")
        bounds = timestamp_bounds(self._config, now_ms)
        bounds.check(self.topic, timestamp_ms * 1000, timestamp_ms * 1000)
        return timestamp_ms * 1000


class SendableTopics:
    """A cache of the topics that a producer sends to. Thread-safe; two threads may look up the same topic at once."""

    def __init__(
        self,
        connection: Connection,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
    ) -> None:
        """Create the cache. Serializers turn a key or a value into bytes or text; None stays None, without a call.

        Raises InvalidInput if a serializer can't be called.
        """
        for name, given in (("key_serializer", key_serializer), ("value_serializer", value_serializer)):
            if given is not None and not callable(given):
                raise InvalidInput(f"{name}: wanted a function of one argument, found {type(given).__name__}")
        self._connection = connection
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._known: dict[str, SendableTopic] = {}

    def record(
        self,
        topic: str,
        value: object,
        key: object = None,
        headers: Sequence[Header] | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
        **unknown: Never,
    ) -> tuple[SendableTopic, Cells, int]:
        """Check and serialize a record. Returns its topic, its cells, and the bytes that it takes in the buffer.

        The cells are key, value, headers, timestamp in microseconds, and partition (None: not given). Raises the errors
        of the serializers, RecordTooLarge, InvalidRecord, InvalidInput, InvalidOption, UnknownTopicOrPartition.
        """
        if unknown:
            refuse_unknown("send", unknown, SendOptions.__annotations__)
        sendable = self._known.get(topic) or self._found(self._connection.follower.state, topic)
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
        if size > sendable.max_message_bytes or partition is not None or sendable.needs_key:
            self._check(sendable, name, size, partition)
        timestamp_us = now_us() if timestamp_ms is None else sendable.check_timestamp(timestamp_ms, now_ms())
        return sendable, (name, body, listed, timestamp_us, partition), size + RECORD_BYTES

    def knows(self, topic: str) -> bool:
        """True if this topic is in the cache, so that `record` needs no look-up."""
        return topic in self._known

    def look_up(self, topic: str) -> None:
        """Put a topic into the cache; read the chain if the topic is unknown. Raises the errors of `_found`."""
        self._found(self._connection.follower.state, topic)

    def forget(self) -> None:
        """Empty the cache. Call it after the chain was read, because its new entries may have changed topics."""
        self._known.clear()

    def _found(self, state: ClusterState, topic: str) -> SendableTopic:
        """Look the topic up in `state`, or in the newest state if it is not there or mirrored there; cache and return
        it.

        Raises UnknownTopicOrPartition, InvalidTopic (an internal topic), PolicyViolation (a mirror topic),
        InvalidInput.
        """
        if not isinstance(topic, str):
            raise InvalidInput(f"topic: wanted its name, found {topic!r}")
        named = state.topic_named(topic)
        if named is None or named.mirror_of is not None:
            state = self._connection.follower.catch_up().state
        check_not_internal(topic)
        known = topic_of(state, topic)
        check_takes(topic, known.mirror_of, named=False)
        sendable = self._known[topic] = SendableTopic(known, state.topic_config(known))
        return sendable

    def _check(self, sendable: SendableTopic, key: bytes | None, size_bytes: int, partition: int | None) -> None:
        """Check a record against the cached topic; if that fails, against the topic in the newest state.

        Raises the errors of `SendableTopic.check` and of `_found`.
        """
        try:
            sendable.check(key, size_bytes, partition)
        except SparklogError:
            newest = self._connection.follower.catch_up().state
            self._found(newest, sendable.topic).check(key, size_bytes, partition)
