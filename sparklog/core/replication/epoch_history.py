"""Leader epoch history of a partition: the start offset of each epoch (KIP-101, KIP-279, KIP-320)."""

from __future__ import annotations

from typing import NamedTuple

from sparklog.core.types import LeaderEpoch, Offset

EpochHistory = tuple[tuple[LeaderEpoch, Offset], ...]  # (epoch, start offset), both ascending


class EpochEnd(NamedTuple):
    """The end of the records of a leader epoch."""

    leader_epoch: LeaderEpoch
    end: Offset


def trimmed_from_start(history: EpochHistory, log_start: Offset) -> EpochHistory:
    """The history after the log start moved. The last entry at or below it stays, and now starts there."""
    dropped = [entry for entry in history if entry[1] <= log_start]
    kept = tuple(entry for entry in history if entry[1] > log_start)
    return ((dropped[-1][0], log_start), *kept) if dropped else kept


def truncated(history: EpochHistory, end: Offset) -> EpochHistory:
    """The history without epochs that begin at `end` or later: a log cut there has no record of them left (rule E6)."""
    return tuple(entry for entry in history if entry[1] < end)


def opened(history: EpochHistory, epoch: LeaderEpoch, start: Offset) -> EpochHistory:
    """The history after `epoch` begins at `start` (rule E3). An earlier epoch that wrote nothing is left out."""
    return (*truncated(history, start), (epoch, start))


def end_of_epoch(history: EpochHistory, log_end: Offset, epoch: LeaderEpoch) -> EpochEnd | None:
    """The greatest epoch up to `epoch` that wrote, and its end: Kafka's `OffsetsForLeaderEpoch` (rule E5).

    None for an epoch that is still to come. For an epoch older than the history: that epoch, and the start of the
    history.
    """
    newest, _ = history[-1]
    if epoch > newest:
        return None
    if epoch == newest:
        return EpochEnd(epoch, log_end)
    later = next(index for index, (begun, _) in enumerate(history) if begun > epoch)
    return EpochEnd(history[later - 1][0] if later else epoch, history[later][1])
