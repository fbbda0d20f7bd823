"""The settings of a producer. Names and meanings are those of Kafka's producer, except `batch_size`."""

from __future__ import annotations

from typing import Final

import msgspec

from sparklog.core.describe.readable import exact_amount
from sparklog.core.errors import InvalidInput
from sparklog.core.idempotence.producers import KEPT_BATCHES
from sparklog.core.replication.replica_append import Acks

LINGER_MS: Final = 50
BATCH_BYTES: Final = 4 << 20
BUFFER_BYTES: Final = 64 << 20
LARGEST_BUFFER_BYTES: Final = 1 << 30  # it may all go into one Arrow column, which must be smaller than 2 GiB
MAX_BLOCK_MS: Final = 60_000
DELIVERY_TIMEOUT_MS: Final = 120_000
LONGEST_MS: Final = (1 << 31) - 1  # as Kafka's delivery.timeout.ms; the waiting time of a lock is limited
MAX_IN_FLIGHT: Final = KEPT_BATCHES
RECORD_BYTES: Final = 100  # what a record takes of the buffer beyond its key, value and headers


class ProducerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a producer. A record's size is that of its key, value and headers, plus RECORD_BYTES.

    `linger_ms`: how long the first record waits for others. `batch_size`: once this many bytes wait, they are sent
    without lingering; unlike Kafka's it counts the records of all partitions, because they go into one commit.
    `buffer_memory`: the bytes that may wait or be under way; `send` blocks for up to `max_block_ms` for room.
    `delivery_timeout_ms`: the time after `send` at which a record that is not written yet fails. `max_in_flight`: the
    number of flushes that may be under way, at most five, because the chain remembers the last five batches of a
    producer in each partition. Times are at most LONGEST_MS.
    """

    acks: Acks = Acks.ALL
    linger_ms: int = LINGER_MS
    batch_size: int = BATCH_BYTES
    buffer_memory: int = BUFFER_BYTES
    max_block_ms: int = MAX_BLOCK_MS
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    max_in_flight: int = MAX_IN_FLIGHT

    def __post_init__(self) -> None:
        """Raise InvalidInput if a setting is out of its range, or does not fit another one."""
        for name, least in (
            ("linger_ms", 0),
            ("batch_size", 1),
            ("buffer_memory", 1),
            ("max_block_ms", 0),
            ("delivery_timeout_ms", 1),
            ("max_in_flight", 1),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidInput(f"{name}: wanted a whole number from {least} on, found {value!r}")
            if name.endswith("_ms") and value > LONGEST_MS:
                raise InvalidInput(f"{name}: wanted at most {LONGEST_MS} ms, found {value}")
        if self.max_in_flight > KEPT_BATCHES:
            raise InvalidInput(
                f"max_in_flight: wanted at most {KEPT_BATCHES}, found {self.max_in_flight}: the chain remembers "
                "this many batches of a producer in each partition, to detect those sent twice"
            )
        if self.delivery_timeout_ms <= self.linger_ms:
            raise InvalidInput(
                f"delivery_timeout_ms: wanted more than linger_ms, {self.linger_ms}, found {self.delivery_timeout_ms}: "
                "records would time out before they are sent"
            )
        if self.buffer_memory > LARGEST_BUFFER_BYTES:
            raise InvalidInput(
                f"buffer_memory: wanted at most {exact_amount(LARGEST_BUFFER_BYTES)}, found "
                f"{exact_amount(self.buffer_memory)}"
            )
        if self.batch_size > self.buffer_memory:
            raise InvalidInput(
                f"batch_size: wanted at most buffer_memory, {exact_amount(self.buffer_memory)}, found "
                f"{exact_amount(self.batch_size)}"
            )
