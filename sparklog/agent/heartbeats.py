"""Schedules the heartbeats of an agent, often enough that the coordinator does not take the agent for dead."""

from __future__ import annotations

from typing import Final

from sparklog.agent.agent_requests import SendHeartbeat
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId

PER_SESSION: Final = 3  # heartbeats per session, so one may be lost


class Heartbeats:
    """The heartbeats of the agent of `store`.

    None is due unless a coordinator is in force, the store is registered and not fenced, and its agent is up.
    """

    def __init__(self, store: StoreId) -> None:
        self._store = store
        self._registration: int | None = None
        self._every_ms = 0
        self._next_ms = 0
        self._under_way = False

    def observe(self, state: ClusterState) -> None:
        """Take the newest state: it decides whether heartbeats are due, and how often."""
        store = state.stores.get(self._store)
        watched = state.coordinator.in_force and store is not None and store.agent_up and not store.fenced
        self._registration = store.registration if watched and store is not None else None
        self._every_ms = effective_cluster(state.config).broker_session_timeout_ms // PER_SESSION

    @property
    def wake_ms(self) -> int | None:
        """Time of the next heartbeat (monotonic ms). None if none is to be sent, or if the last has no reply yet."""
        return None if self._registration is None or self._under_way else self._next_ms

    def due(self, now_ms: int) -> list[SendHeartbeat]:
        """Return the heartbeat to send now; [] if it is not due, or if the last one has neither reply nor error yet."""
        if self.wake_ms is None or now_ms < self._next_ms or self._registration is None:
            return []
        self._under_way = True
        self._next_ms = now_ms + self._every_ms
        return [SendHeartbeat(self._registration)]

    def answered(self) -> None:
        """Note that the last heartbeat got a reply or an error. Even after an error, the next one is sent on time."""
        self._under_way = False
