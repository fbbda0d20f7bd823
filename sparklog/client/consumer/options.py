"""The options of a consumer: Kafka's names, in Python's spelling, and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from sparklog.client.groups.member import SESSION_TIMEOUT_MS
from sparklog.client.kafka_names import unknown_option
from sparklog.core.errors import InvalidOption
from sparklog.core.reading.consumer_positions import AutoOffsetReset

if TYPE_CHECKING:
    from sparklog.client.consumer.consumer_record import Deserializer


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """Options for reads and commits of a consumer.

    `auto_offset_reset`: where the consumer begins in a partition without a committed offset, and where it continues if
    its position is not in the log: earliest, latest, or none (raise OffsetOutOfRange).
    `enable_auto_commit`: commit the records that earlier calls returned, every `auto_commit_interval_ms` and when the
    consumer is closed. None: true if the consumer has a group.
    `max_poll_records`: maximum number of records that one `poll` returns. `fetch_max_bytes`: approximate memory for the
    records of one call; records fetched ahead for the next partitions take at most as much again. Reads that stay open
    between calls hold about `fetches.MOST_OPEN_BYTES` more.
    `session_timeout_ms`: if the consumer makes no call for this long, the other members get its partitions.
    `group_instance_id`: makes the consumer a static member of its group (KIP-345): it does not leave when it is closed.
    If another consumer with the same id starts within the session, it takes over the partitions without a rebalance,
    and fences the older one.
    `heartbeat_interval_ms`: time between two checks of the group and the topics for changes.
    `consumer_timeout_ms`: the iterator ends if no record comes for this long; None: never.
    `key_deserializer`, `value_deserializer`: functions that turn bytes into a key and a value, for `poll` and the
    iterator; `poll_table` returns bytes. A key or value of None stays None.
    `fail_on_data_loss`: raise DataLoss if acknowledged records are lost; if false, log a warning and continue after the
    lost records.
    """

    auto_offset_reset: str = AutoOffsetReset.LATEST
    enable_auto_commit: bool | None = None
    auto_commit_interval_ms: int = 5_000
    max_poll_records: int = 500
    fetch_max_bytes: int = 50 << 20
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    group_instance_id: str | None = None
    heartbeat_interval_ms: int = 3_000
    consumer_timeout_ms: int | None = None
    fail_on_data_loss: bool = True
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    def __post_init__(self) -> None:
        """Check the values of the options. Raises InvalidOption."""
        if self.auto_offset_reset not in list(AutoOffsetReset):
            raise InvalidOption(
                f"auto_offset_reset: wanted {', '.join(AutoOffsetReset)}, found {self.auto_offset_reset!r}"
            )
        for name in (
            "auto_commit_interval_ms",
            "max_poll_records",
            "fetch_max_bytes",
            "session_timeout_ms",
            "heartbeat_interval_ms",
        ):
            check_positive(name, getattr(self, name))
        if self.consumer_timeout_ms is not None:
            check_positive("consumer_timeout_ms", self.consumer_timeout_ms)
        for name in ("enable_auto_commit", "fail_on_data_loss"):
            if not isinstance(getattr(self, name), bool | None):
                raise InvalidOption(f"{name}: wanted True or False, found {getattr(self, name)!r}")
        for name in ("key_deserializer", "value_deserializer"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise InvalidOption(f"{name}: wanted a function of one argument, found {getattr(self, name)!r}")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidOption(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} is not below "
                f"session_timeout_ms={self.session_timeout_ms}: a member that looks so rarely would be evicted"
            )


def check_positive(name: str, value: object) -> None:
    """Raise InvalidOption, naming the option `name`, unless `value` is an integer of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidOption(f"{name}: wanted an integer from 1 on, found {value!r}")


def consumer_options(given: Mapping[str, Any]) -> ConsumerOptions:
    """Make the options from values by name. Raises InvalidOption for an unknown name or an invalid value."""
    names = [field.name for field in fields(ConsumerOptions)]
    for name in given:
        if name not in names:
            raise unknown_option("a consumer", name, ["group", "pattern", "listener", *names])
    return ConsumerOptions(**given)
