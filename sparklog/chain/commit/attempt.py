"""A pending entry: its slot is being claimed, or it has won the slot and is not acknowledged yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparklog.chain.commit.claim import Claim, Lost, Voided, Won
from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.head import Head
from sparklog.core.errors import SparklogError
from sparklog.core.records import AppliedCommand, At
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
        """True if the next slot may be claimed before this entry is acknowledged. `waiting`: how many commands wait.

        This entry must be in its slot: then it lacks at most the check of its block's void mark, and the mirrors. The
        next slot must be in the same block and not be claimed yet. And more commands must wait than this entry holds.
        """
        return (
            self.claim.is_there
            and not self.is_followed
            and waiting > len(self.decided)
            and entry_block(self.at.n + 1) == entry_block(self.at.n)
        )
