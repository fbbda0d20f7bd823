"""Notes for people about followers that lag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sparklog.agent.agent_requests import Note
from sparklog.core.commands import LaggingReplicas
from sparklog.core.describe.readable import counted
from sparklog.core.state import ClusterState


def notes_of_dropped(lagging: Sequence[LaggingReplicas], state: ClusterState) -> list[Note]:
    """A line for each store that has left the ISR of partitions, by the state after the command."""
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
