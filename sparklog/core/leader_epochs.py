"""Leader epoch history of a partition: which epoch begins at which offset (KIP-101, KIP-279, KIP-320)."""

from __future__ import annotations

from sparklog.core.types import LeaderEpoch, Offset

EpochHistory = tuple[tuple[LeaderEpoch, Offset], ...]  # (epoch, start offset), both ascending


def trimmed_from_start(history: EpochHistory, log_start: Offset) -> EpochHistory:
    """The history after the log start moved: of the entries at or below it only the last stays, and starts there."""
    dropped = [entry for entry in history if entry[1] <= log_start]
    kept = tuple(entry for entry in history if entry[1] > log_start)
    return ((dropped[-1][0], log_start), *kept) if dropped else kept
