"""What a consumer calls when its partitions change."""

from __future__ import annotations

from collections.abc import Sequence

from sparklog.core.types import Place


class RebalanceListener:
    """Methods that the consumer calls, inside calls of its own, when its partitions change. Override those you need."""

    def on_partitions_revoked(self, partitions: Sequence[Place]) -> None:
        """The consumer gives these up. In a rebalance they may be another member's already.

        Their positions can still be asked for. A commit is refused then (IllegalGeneration), unless the consumer itself
        is closing or changes what it reads.
        """

    def on_partitions_assigned(self, partitions: Sequence[Place]) -> None:
        """The consumer reads these from now on, from where the group has committed unless `seek` says otherwise."""
