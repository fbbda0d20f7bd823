"""Wakes an agent that has nothing to fetch once it has: the coordinator says so, or the agent looks by itself."""

from __future__ import annotations

from typing import Final

from sparklog.agent.agent_requests import AwaitNews, Reply
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber

LONGEST_MS: Final = 5_000  # after this the agent looks, whatever the coordinator says


class News:
    """Requests for news, one at a time. `arrived`: since the agent began to wait, there may be something to do."""

    def __init__(self) -> None:
        self.arrived = False
        self._wanted: AwaitNews | None = None  # the request to send next
        self._until_ms: int | None = None  # when the answer to the request that was sent is due
        self._is_awaited = False  # True if the present wait ends with that answer

    def begin(self, state: ClusterState, *, is_idle: bool) -> None:
        """Begin a wait in this state. It ends with news if there is nothing to fetch, and a coordinator to ask."""
        self.arrived, self._wanted = False, None
        self._is_awaited = is_idle and state.coordinator.in_force
        if self._is_awaited and self._until_ms is None:
            lag_ms = effective_cluster(state.config).replica_lag_time_max_ms
            self._wanted = AwaitNews(EntryNumber(state.n), min(LONGEST_MS, lag_ms // 2))

    def due(self, now_ms: int) -> list[AwaitNews]:
        """The request to send now, if there is one."""
        if self._wanted is None:
            return []
        wanted, self._wanted = self._wanted, None
        self._until_ms = now_ms + wanted.longest_ms
        return [wanted]

    def answered(self, reply: Reply) -> None:
        """Take the reply, or the error."""
        self._until_ms = None
        self.arrived = reply is True

    def postponed(self, until_ms: float) -> float:
        """Time of the next look: `until_ms`, or later if an answer is due later."""
        return max(until_ms, self._until_ms) if self._is_awaited and self._until_ms is not None else until_ms
