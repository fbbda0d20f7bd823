"""What a log must say, kept beside it: which value is at which offset, who was told what, and what was given up.

Values are unique: a stream and a count, so that a value that is there twice, or out of order, shows. Streams whose name
begins with "p" are idempotent producers: their values ascend in each partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber, Offset, TopicPartition, UploadId


@dataclass(frozen=True, slots=True)
class Uploaded:
    """An append object as its writer made it: the values of each partition, and the objects by key."""

    n0: EntryNumber
    parts: Mapping[TopicPartition, Sequence[bytes]]


@dataclass
class History:
    """The model of the log."""

    uploads: dict[UploadId, Uploaded] = field(default_factory=dict)
    values: dict[TopicPartition, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))  # for ever
    live: dict[bytes, tuple[TopicPartition, int]] = field(default_factory=dict)
    acknowledged: dict[bytes, str] = field(default_factory=dict)  # by acks: "ALL" or "LEADER"
    refused: set[UploadId] = field(default_factory=set)
    confirmed: set[UploadId] = field(default_factory=set)  # named once, and deleted since
    forgotten: dict[TopicPartition, set[int]] = field(default_factory=lambda: defaultdict(set))
    compacted: dict[TopicPartition, set[int]] = field(default_factory=lambda: defaultdict(set))
    atomic: dict[bytes, frozenset[bytes]] = field(default_factory=dict)  # the first values of writes over partitions
    _newest: dict[tuple[bytes, TopicPartition], list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, key: TopicPartition, start: Offset, values: Sequence[bytes]) -> None:
        """Records were appended. Checks 2, 3 and 4."""
        at = self.values[key]
        for offset, value in enumerate(values, start):
            assert offset not in at, f"2: offset {offset} of {key} has {at[offset]!r}, and now {value!r}"
            assert value not in self.live, f"3: {value!r} is at {self.live[value]}, and now at {key} {offset}"
            at[offset] = value
            self.live[value] = key, offset
            stream, _, count = value.rpartition(b"/")
            if stream.startswith(b"p"):
                newest = self._newest[stream, key]
                assert not newest or newest[-1] < int(count), f"4: {value!r} comes after {newest[-1]} in {key}"
                newest.append(int(count))

    def forget(self, key: TopicPartition, start: Offset) -> list[tuple[int, bytes]]:
        """An election gave up what is live from `start` on: these (offset, value)."""
        gone = [(offset, value) for offset, value in self.values[key].items() if offset >= start and value in self.live]
        gone = [(offset, value) for offset, value in gone if self.live[value] == (key, offset)]
        for offset, value in gone:
            del self.live[value]
            self.forgotten[key].add(offset)
            stream, _, count = value.rpartition(b"/")
            if stream.startswith(b"p") and int(count) in self._newest[stream, key]:
                self._newest[stream, key].remove(int(count))
        return gone

    def retain(self, key: TopicPartition, low: Offset, log_start: Offset) -> None:
        """Retention, or the end of the topic, removed what lies in [low, log_start)."""
        at = self.values[key]
        for offset in range(low, log_start):
            value = at.get(offset)
            if value is not None and self.live.get(value) == (key, offset):
                del self.live[value]

    def compact(self, key: TopicPartition, offsets: Iterable[int]) -> None:
        """A compaction dropped these records."""
        for offset in offsets:
            self.compacted[key].add(offset)
            self.live.pop(self.values[key][offset], None)

    def wanted(self, key: TopicPartition, start: int, end: int) -> dict[int, bytes]:
        """The records that a read of [start, end) is to give, as long as none of them goes."""
        at, gone = self.values[key], self.forgotten[key] | self.compacted[key]
        return {offset: at[offset] for offset in range(start, end) if offset in at and offset not in gone}


def ranges_of(result: CommandResult) -> dict[TopicPartition, range]:
    """What an append wrote, by partition."""
    return {TopicPartition(each.topic_id, each.partition): range(each.start, each.end) for each in result.ranges}
