"""Counts of committed entries and appended records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sparklog.core.records import CommandResult
from sparklog.core.types import TopicId


class AppendCounts(NamedTuple):
    """Records and bytes that were appended to a topic. The bytes are those of the stored batches, on one store."""

    records: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class CommitCounts:
    """Counts of the commits of one `GroupCommit`. `group_sizes[k]` is the number of entries with k commands.

    `lost_slots`: how often another entry won the slot. `appended`: records and bytes by topic.
    """

    entries: int = 0
    lost_slots: int = 0
    group_sizes: dict[int, int] = field(default_factory=dict)
    appended: dict[TopicId, AppendCounts] = field(default_factory=dict)

    def count_entry(self, results: Sequence[CommandResult]) -> None:
        """Add a committed entry to the counts. `results` are the results of its commands."""
        self.entries += 1
        self.group_sizes[len(results)] = self.group_sizes.get(len(results), 0) + 1
        for result in results:
            for range_ in result.ranges:
                records, size_bytes = self.appended.get(range_.topic_id, (0, 0))
                counted = AppendCounts(records + range_.records, size_bytes + range_.size_bytes)
                self.appended[range_.topic_id] = counted

    def copy(self) -> CommitCounts:
        """Return a copy of these counts, which later commits do not change."""
        return CommitCounts(self.entries, self.lost_slots, self.group_sizes.copy(), self.appended.copy())
