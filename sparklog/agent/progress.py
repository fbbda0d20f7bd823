"""What people hear of a store's progress: behind, by how much, and caught up; not more often than they can read."""

from __future__ import annotations

from typing import Final

from sparklog.agent.requests import Note
from sparklog.core.readable import amount, counted
from sparklog.core.replica_fetch import Standing, lag_bytes
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId

EVERY_MS: Final = 10_000


class Progress:
    """Remembers what was said last."""

    def __init__(self, store: StoreId) -> None:
        self._store = store
        self._said_behind: bool | None = None
        self._next_ms = 0

    def notes(self, state: ClusterState, at: Standing, now_ms: int) -> list[Note]:
        """What is worth a line now. A store that is behind again is worth none before EVERY_MS have passed."""
        if not at.behind:
            if self._said_behind is False:
                return []
            self._said_behind, self._next_ms = False, now_ms + EVERY_MS
            return [Note("caught-up", f"store {self._store} has caught up at chain position {state.n}")]
        if self._said_behind is not None and now_ms < self._next_ms:
            return []
        self._said_behind, self._next_ms = True, now_ms + EVERY_MS
        lag = amount(lag_bytes(state, self._store, at.behind))
        return [Note("behind", f"store {self._store} is behind by {lag} in {counted(len(at.behind), 'partition')}")]
