"""The listener that a consumer calls when its partitions change."""

from __future__ import annotations

from collections.abc import Sequence

from sparklog.core.types import Place


class RebalanceListener:
    """Methods that the consumer calls, inside its own calls, when its partitions change. Override those you need."""

    def on_partitions_revoked(self, partitions: Sequence[Place]) -> None:
        """Called when the consumer gives these up. In a rebalance they may already belong to another member.

        Their positions can still be read. A commit is then refused (IllegalGeneration), unless the consumer itself is
        closing or changes its subscription.
        """

    def on_partitions_assigned(self, partitions: Sequence[Place]) -> None:
        """Called when the consumer begins to read these, at the group's committed offsets unless it calls `seek`."""
