"""A mirror topic with replicas on stores a, b and c, whose state is made by commands alone."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from sparklog.core.commands import Append, PromoteTopic
from sparklog.core.records import CommandResult
from sparklog.core.types import KafkaTopic, Offset, OffsetRange, TimestampSource
from tests.core.decided_log import TOPIC
from tests.core.replicated_log import ReplicatedLog

SOURCE = KafkaTopic("kafka-1", "orders", "0c5f1f4e-8a55-4b53-9d0c-6c4b2b1b7a10")


@dataclass
class MirroredLog(ReplicatedLog):
    """Topic "orders" with two partitions mirrors SOURCE until it is promoted."""

    partitions: int = 2
    mirror_of: KafkaTopic | None = SOURCE

    def named(
        self,
        records: int,
        start: int,
        end: int,
        *,
        on: str = "abc",
        partition: int = 0,
        source: TimestampSource = TimestampSource.CREATE_TIME,
    ) -> Append:
        """A slice of `records` records that names offsets [start, end), in an object on these stores."""
        command = self.write_of(on, records, partition)
        (plain,) = command.slices
        named = replace(plain, offsets=OffsetRange(Offset(start), Offset(end)), timestamp_source=source)
        return replace(command, slices=(named,))

    def promote(self, *ends: int) -> CommandResult:
        return self.submit(PromoteTopic(TOPIC, tuple(map(Offset, ends))))
