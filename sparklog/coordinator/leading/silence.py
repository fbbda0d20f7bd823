"""The observations of a leading coordinator: silent agents, silent members of groups, and replicas that lag.

A store is alive if its agent sends heartbeats, or if a write reaches the store. A member of a group is alive if it
sends heartbeats or commits (`core/groups/sessions.py`). The chain records none of these signs, only that the agent of a
silent store is down and that a silent member has left. Times are milliseconds of the process's monotonic clock. After a
takeover all timers restart: no store or member counts as silent before one full session. Time in which this process
itself was paused does not count, because it could hear nothing then.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparklog.coordinator.leading.leadership import ENTRIES_PER_SESSION
from sparklog.core.commands import AgentDown, Append, Command, DropLagging
from sparklog.core.groups.sessions import GroupsWatch
from sparklog.core.placement.lag_clock import LagClock
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId


class Watching:
    """Watches agents, members and follower replicas for one coordinator, from the time when it became the leader."""

    def __init__(self, session_ms: int) -> None:
        self._session_ms = session_ms
        self._heard_ms: dict[tuple[StoreId, int], int] = {}  # by store and registration
        self._observed_ms: int | None = None
        self._asked_ms = 0
        self._lag_clock = LagClock(None)
        self._groups = GroupsWatch()

    def heard(self, store: StoreId, registration: int, now_ms: int) -> None:
        """Note that the agent of the store is alive, or that a write has reached the store."""
        self._heard_ms[store, registration] = now_ms

    def heard_member(self, group: str, member_id: str, now_ms: int) -> None:
        """Note that a member of a group is alive."""
        self._groups.heard(group, member_id, now_ms)

    def heard_ms_ago(self, now_ms: int) -> dict[StoreId, int]:
        """The milliseconds since each store was last heard of, or else since this object began to watch it."""
        return {store: now_ms - heard_ms for (store, _), heard_ms in self._heard_ms.items()}

    def written(self, command: Append, now_ms: int) -> None:
        """Note that a committed write has reached the stores which it names as holders: they are alive at `now_ms`."""
        for named in command.objects:
            for holder in named.holders:
                self.heard(holder.store, holder.registration, now_ms)

    def observe(self, state: ClusterState, asked_ms: int, now_ms: int) -> None:
        """Note the newest state, from a read of the chain that began at `asked_ms` and ended by `now_ms`.

        If this process was paused since the last call, extend the timers of stores and members by that time. Call this
        before `due`.
        """
        self._lag_clock.observe(state, asked_ms, now_ms)
        known = {(store.store, store.registration) for store in state.stores.values()}
        deaf_ms = self._deaf_ms(now_ms)
        self._heard_ms = {key: min(heard + deaf_ms, now_ms) for key, heard in self._heard_ms.items() if key in known}
        self._groups.was_deaf(deaf_ms, now_ms)
        self._observed_ms, self._asked_ms = now_ms, asked_ms

    def _deaf_ms(self, now_ms: int) -> int:
        """The time in ms for which this process was paused since the last `observe`; 0 before the first `observe`.

        A process that is not paused usually calls `observe` every third of a session, so only the time beyond that
        counts.
        """
        if self._observed_ms is None:
            return 0
        return max(0, now_ms - self._observed_ms - self._session_ms // ENTRIES_PER_SESSION)

    def due(self, state: ClusterState, now_ms: int) -> Iterator[Command]:
        """Yield the commands to submit now, for silent agents, for silent members, and for replicas that lag.

        Pass the `state` and `now_ms` of the last `observe`. A store of which nothing was heard yet counts as heard at
        `now_ms`. Once a store is reported as silent, its timer restarts.
        """
        for store in sorted(state.stores.values(), key=lambda store: store.store):
            heard_ms = self._heard_ms.setdefault((store.store, store.registration), now_ms)
            if store.agent_up and not store.fenced and now_ms >= heard_ms + self._session_ms:
                del self._heard_ms[store.store, store.registration]
                yield AgentDown(store.store, store.registration)
        yield from self._groups.silent(state, self._asked_ms, now_ms)
        lagging = self._lag_clock.check(now_ms)
        if lagging:
            yield DropLagging(lagging)
