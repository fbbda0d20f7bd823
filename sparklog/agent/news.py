"""Wakes an idle agent when there may be something to fetch.

The agent sends the coordinator a request (AwaitNews), which is answered when an entry concerns the store: that is news.
Without a coordinator, or without a reply in time, the agent reads the chain.
"""

from __future__ import annotations

from typing import Final

from sparklog.agent.agent_requests import AwaitNews, Reply
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber

LONGEST_MS: Final = 5_000  # after this the agent reads the chain, with or without news


class News:
    """Sends AwaitNews requests, one at a time. `arrived`: True if a reply since `begin` was True."""

    def __init__(self) -> None:
        self.arrived = False
        self._wanted: AwaitNews | None = None  # the request to send next
        self._until_ms: int | None = None  # time by which the reply to the request under way is due; None without one
        self._is_awaited = False  # True if the present wait lasts until that reply

    def begin(self, state: ClusterState, *, is_idle: bool) -> None:
        """Begin the agent's wait for a state newer than `state`. `is_idle`: the agent has nothing to fetch.

        If the agent is idle and a coordinator is in force, a request for news is sent unless one is under way, and the
        wait may last until its reply is due.
        """
        self.arrived, self._wanted = False, None
        self._is_awaited = is_idle and state.coordinator.in_force
        if self._is_awaited and self._until_ms is None:
            lag_ms = effective_cluster(state.config).replica_lag_time_max_ms
            self._wanted = AwaitNews(EntryNumber(state.n), min(LONGEST_MS, lag_ms // 2))

    def due(self, now_ms: int) -> list[AwaitNews]:
        """Return the request to send now; [] if no request is to be sent now."""
        if self._wanted is None:
            return []
        wanted, self._wanted = self._wanted, None
        self._until_ms = now_ms + wanted.longest_ms
        return [wanted]

    def answered(self, reply: Reply) -> None:
        """Take the reply to the request. Only True counts as news: neither False, nor None, nor an error."""
        self._until_ms = None
        self.arrived = reply is True

    def postponed(self, until_ms: float) -> float:
        """Return `until_ms`, or if the agent waits for a reply that is due later, the time when it is due."""
        return max(until_ms, self._until_ms) if self._is_awaited and self._until_ms is not None else until_ms
