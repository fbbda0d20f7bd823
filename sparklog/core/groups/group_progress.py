"""The progress of a group: its committed offsets, and `lag_of`, which defines the lag of any reader."""

from __future__ import annotations

from collections.abc import Mapping

from sparklog.core.groups.membership import CommittedOffset
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, TopicPartition


def committed_offsets(state: ClusterState, group: str) -> Mapping[TopicPartition, CommittedOffset]:
    """The committed offsets of a group by partition, in ascending order; empty if there is no such group."""
    known = state.groups.get(group)
    return {} if known is None else state.offsets.of_group(known.number)


def lag_of(offset: int, log_start: Offset, high_watermark: Offset) -> int:
    """The number of offsets that a reader at `offset` has left to read in the log, as Kafka counts them.

    After compaction there may be fewer records than offsets. Offsets below the log start are not counted.
    """
    return max(0, high_watermark - max(log_start, offset))
