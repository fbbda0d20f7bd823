"""A pending entry, and counts of committed entries and appended records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sparklog.chain.commit.claim import Claim, Lost, Voided, Won
from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.head import Head
from sparklog.core.errors import SparklogError
from sparklog.core.records import AppliedCommand, At, CommandResult
from sparklog.core.types import TopicId
from sparklog.storage.keys import entry_block


@dataclass(slots=True, eq=False)
class Attempt:
    """A pending entry: the `claim` of its slot, the head `after` it, and its `decided` commands with their tickets."""

    claim: Claim
    at: At
    after: Head
    decided: Sequence[tuple[Ticket, AppliedCommand]]
    began_ms: int
    is_mirroring: bool = False  # it has won, and is being put on mirrors
    is_mirrored: bool = False
    is_followed: bool = False  # waiting commands were already decided on top of it
    outcome: Won | Lost | Voided | SparklogError | None = None

    def may_be_followed(self, waiting: int) -> bool:
        """True if the next slot may already be claimed, given that `waiting` commands wait.

        This entry must be in its slot, so that only the void mark of its block remains to be checked. The next slot
        must be in the same block and not be claimed yet. And more commands must wait than this entry holds.
        """
        return (
            self.claim.is_there
            and not self.is_followed
            and waiting > len(self.decided)
            and entry_block(self.at.n + 1) == entry_block(self.at.n)
        )


class AppendCounts(NamedTuple):
    """Records and bytes that were appended to a topic. The bytes are those of the stored batches, on one store."""

    records: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class CommitCounts:
    """Counts of the commits of one `GroupCommit`. `group_sizes[k]` is the number of entries with k commands."""

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
