"""Human-readable notes on the replicas of a store: behind (and by how much), caught up, or out of the ISR."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from sparklog.agent.agent_requests import Note
from sparklog.core.commands import LaggingReplicas
from sparklog.core.describe.readable import amount, counted
from sparklog.core.placement.replica_fetch import UnfinishedReplicas, lag_bytes
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId

EVERY_MS: Final = 10_000


class Progress:
    """The notes on one store. Remembers the last note, so that notes are not repeated too often."""

    def __init__(self, store: StoreId) -> None:
        self._store = store
        self._said_behind: bool | None = None
        self._next_ms = 0

    def notes(self, state: ClusterState, at: UnfinishedReplicas, now_ms: int) -> list[Note]:
        """Return the notes to show now; [] if there is nothing new. `at`: the store's unfinished replicas in `state`.

        A `caught-up` note comes at once, and again only after a `behind` note. A `behind` note comes at the earliest
        EVERY_MS after the previous note.
        """
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


def notes_of_dropped(lagging: Sequence[LaggingReplicas], state: ClusterState) -> list[Note]:
    """Return a note for each store that has left an ISR. `state`: the state after `lagging` was taken out."""
    left = Counter(
        store
        for replicas in lagging
        for store in replicas.stores
        if (partition := state.partition(replicas.topic_id, replicas.partition)) is not None
        and store not in partition.replication.isr
    )
    return [
        Note("lag", f"store {store} lags: it has left the ISR of {counted(partitions, 'partition')}")
        for store, partitions in sorted(left.items())
    ]
