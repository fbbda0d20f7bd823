"""Leader epoch history of a partition: the start offset of each epoch (KIP-101, KIP-279, KIP-320)."""

from __future__ import annotations

from typing import NamedTuple

from sparklog.core.types import LeaderEpoch, Offset

EpochHistory = tuple[tuple[LeaderEpoch, Offset], ...]  # (epoch, start offset), both ascending


class EpochEnd(NamedTuple):
    """The end of the records of a leader epoch: `end` is the first offset after them."""

    leader_epoch: LeaderEpoch
    end: Offset


def trimmed_from_start(history: EpochHistory, log_start: Offset) -> EpochHistory:
    """Return the history after the log start rose: the epoch at the log start begins there, older ones are dropped."""
    dropped = [entry for entry in history if entry[1] <= log_start]
    kept = tuple(entry for entry in history if entry[1] > log_start)
    return ((dropped[-1][0], log_start), *kept) if dropped else kept


def truncated(history: EpochHistory, end: Offset) -> EpochHistory:
    """The history without epochs that begin at `end` or later: a log cut at `end` has no records of them (rule E6)."""
    return tuple(entry for entry in history if entry[1] < end)


def opened(history: EpochHistory, epoch: LeaderEpoch, start: Offset) -> EpochHistory:
    """Return the history with `epoch` added from `start` on, and without epochs that wrote nothing (rule E3)."""
    return (*truncated(history, start), (epoch, start))


def end_of_epoch(history: EpochHistory, log_end: Offset, epoch: LeaderEpoch) -> EpochEnd | None:
    """Return the greatest epoch in the history up to `epoch`, and its end: Kafka's `OffsetsForLeaderEpoch` (rule E5).

    Returns None for an epoch that has not begun. If `epoch` is older than all of the history, returns `epoch` itself,
    and as its end the offset at which the history begins.
    """
    newest, _ = history[-1]
    if epoch > newest:
        return None
    if epoch == newest:
        return EpochEnd(epoch, log_end)
    later = next(index for index, (begun, _) in enumerate(history) if begun > epoch)
    return EpochEnd(history[later - 1][0] if later else epoch, history[later][1])
