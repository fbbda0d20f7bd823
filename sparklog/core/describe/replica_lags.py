"""The lags of the replicas of a topic, from one pass over the topic's slices. If no replica lags, no slice is read."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sparklog.core.row_offsets import records_between
from sparklog.core.state import ClusterState, Topic
from sparklog.core.tables.slice_table import partition_keys


class ReplicaLag(NamedTuple):
    """Records and bytes between a replica's LEO and the end of the log. Offsets without a record don't count."""

    records: int
    size_bytes: int


_NO_LAG: Final = ReplicaLag(0, 0)


def replica_lags(state: ClusterState, topic: Topic) -> list[list[ReplicaLag]]:
    """The lag of each replica, by partition number, in the order of the partition's `replicas`."""
    values = [partition.replication for partition in state.partitions_of(topic)]
    lags = [[_NO_LAG] * len(value.replicas) for value in values]
    behind = [
        (at, number, log_end)
        for at, value in enumerate(values)
        for number, log_end in enumerate(value.log_ends)
        if log_end < value.next_offset
    ]
    if not behind:
        return lags
    keys = partition_keys(topic.topic_id, topic.partitions)
    slices = state.slices.of_partitions(keys, "partition_key", "end", "records", "length")
    order = np.lexsort((slices["end"], slices["partition_key"]))
    ends = slices["end"][order]
    first_rows = np.searchsorted(slices["partition_key"][order], np.arange(keys.start, keys.stop + 1)).tolist()
    records, size_bytes = (np.append(0, np.cumsum(slices[name][order])) for name in ("records", "length"))
    for at, number, log_end in behind:
        low, high = first_rows[at], first_rows[at + 1]
        low += int(np.searchsorted(ends[low:high], log_end, side="right"))
        most = records_between(log_end, values[at].next_offset)
        lags[at][number] = ReplicaLag(
            min(int(records[high] - records[low]), most), int(size_bytes[high] - size_bytes[low])
        )
    return lags
