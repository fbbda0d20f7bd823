"""A state with one topic of one partition, made by commands: what the planners of maintenance look at."""

from __future__ import annotations

from typing import Any

import msgspec

from sparklog.core.commands import Append, CreateCluster, CreateTopic, NewStore, PartitionEpoch
from sparklog.core.records import CommandResult
from sparklog.core.state import Topic
from sparklog.core.types import PartitionIndex
from tests.core.decided_log import TOPIC, A, DecidedLog


class PlannedLog(DecidedLog):
    """Topic "orders" of this config, with partition 0 on store "a"."""

    def __init__(self, config: dict[str, str], now_ms: int = 1_000) -> None:
        self.config = config
        super().__init__(now_ms)

    def __post_init__(self) -> None:
        self.submit(CreateCluster("c" * 32, (NewStore(A, ".", "i"),)))
        self.submit(CreateTopic("orders", 1, 1, self.config))

    @property
    def topic(self) -> Topic:
        return self.state.topics[TOPIC]

    def append_slice(self, records: int, length: int, timestamp_ms: int = 0) -> CommandResult:
        """One slice of `length` bytes in an object of its own."""
        written_us = timestamp_ms * 1000
        part = self.part(records, length=length, min_timestamp_us=written_us, max_timestamp_us=written_us)
        epochs = (PartitionEpoch(TOPIC, PartitionIndex(0), self.partition().replication.leader_epoch),)
        return self.submit(Append((self.uploaded(length + 100),), (part,), epochs))

    def replace_partition(self, **changes: Any) -> None:
        """Change partition 0 as no command of today does: another leader epoch, a follower that lags."""
        self.become(msgspec.structs.replace(self.partition().replication, **changes))

    def seal(self, start: int, end: int) -> CommandResult:
        """Swap [start, end) for one sealed segment."""
        return self.submit(self.swap_of(start, end))
