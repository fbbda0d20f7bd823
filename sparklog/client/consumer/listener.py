"""The listener whose methods a consumer calls when its partitions change."""

from __future__ import annotations

from collections.abc import Sequence

from sparklog.core.types import Place


class RebalanceListener:
    """Methods that the consumer calls, inside its own calls, when its partitions change. Override those you need."""

    def on_partitions_revoked(self, partitions: Sequence[Place]) -> None:
        """Called when the consumer is about to give up these partitions. `Consumer.position` still works for them.

        In a rebalance they may already belong to another member, so a commit here is refused (IllegalGeneration). If
        the consumer is closing or changes its subscription, a commit here is accepted.
        """

    def on_partitions_assigned(self, partitions: Sequence[Place]) -> None:
        """Called when the consumer gets these new partitions, before it reads them.

        The consumer begins at the group's committed offset, or by `auto_offset_reset` if there is none, unless this
        method calls `seek` of the consumer.
        """
