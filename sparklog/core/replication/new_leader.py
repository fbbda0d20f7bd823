"""A replica begins to lead: it opens its epoch, and the log forgets what it lacks."""

from __future__ import annotations

import msgspec

from sparklog.core.replication.epoch_history import opened, truncated
from sparklog.core.replication.partition import Change, Replication
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, StoreId


def led_by(value: Replication, leader: StoreId) -> Change:
    """`leader` opens the next epoch at the next offset (rule E3); the slices above its LEO are forgotten (E4).

    Their offsets are never used again, so every replica that had what the leader has is as far as the leader now. The
    result is not settled yet: ELR, HW and version are still those of before.
    """
    end, next_offset = value.log_end(leader), value.next_offset
    epoch = LeaderEpoch(value.leader_epoch + 1)
    after = msgspec.structs.replace(
        value,
        leader=leader,
        leader_epoch=epoch,
        log_ends=tuple(next_offset if each >= end else each for each in value.log_ends),
        epochs=opened(truncated(value.epochs, end), epoch, next_offset),
        lost=_with_lost(value.lost, end, value.high_watermark),
    )
    return Change(after, OffsetRange(end, next_offset) if end < next_offset else None)


def _with_lost(lost: tuple[OffsetRange, ...], end: Offset, high_watermark: Offset) -> tuple[OffsetRange, ...]:
    """The lost ranges after [end, HW) became one of them, ascending and disjoint."""
    if end >= high_watermark:
        return lost
    below = tuple(each for each in lost if each.end < end)
    touched = [each.start for each in lost if each.start <= end <= each.end]
    return (*below, OffsetRange(min([end, *touched]), high_watermark))
