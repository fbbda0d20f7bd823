"""A replica becomes the leader: a new epoch begins, and the log forgets the slices that the replica lacks."""

from __future__ import annotations

import msgspec

from sparklog.core.replication.epoch_history import opened, truncated
from sparklog.core.replication.partition import Replication, ReplicationChange
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, StoreId


def led_by(value: Replication, leader: StoreId) -> ReplicationChange:
    """Open the next epoch with `leader`, at the next offset (rule E3), and forget slices above its LEO (rule E4).

    The offsets of these slices are never used again. They become a gap, which counts as held by every replica: one
    whose LEO is at or above the leader's gets the next offset as its LEO. The result is not settled yet: its ELR, HW
    and version are still the old ones.
    """
    end, next_offset = value.log_end(leader), value.next_offset
    epoch = LeaderEpoch(value.leader_epoch + 1)
    after = msgspec.structs.replace(
        value,
        leader=leader,
        leader_epoch=epoch,
        log_ends=tuple(next_offset if log_end >= end else log_end for log_end in value.log_ends),
        epochs=opened(truncated(value.epochs, end), epoch, next_offset),
        lost=_with_lost(value.lost, end, value.high_watermark),
    )
    return ReplicationChange(after, OffsetRange(end, next_offset) if end < next_offset else None)


def _with_lost(lost: tuple[OffsetRange, ...], end: Offset, high_watermark: Offset) -> tuple[OffsetRange, ...]:
    """Add the range [end, HW) to the lost ranges, and keep them ascending and disjoint."""
    if end >= high_watermark:
        return lost
    below = tuple(range_ for range_ in lost if range_.end < end)
    touched = [range_.start for range_ in lost if range_.start <= end <= range_.end]
    return (*below, OffsetRange(min([end, *touched]), high_watermark))
