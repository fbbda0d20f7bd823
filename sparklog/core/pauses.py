"""Pauses between failed attempts: each twice as long as the one before, up to a limit."""

from __future__ import annotations

_MOST_DOUBLINGS = 32


def longer(pause: float, longest: float) -> float:
    """Return the pause after one of length `pause`, at most `longest`, in the same unit."""
    return min(pause * 2, longest)


def pause_ms_after(failures: int, first_ms: int, longest_ms: int) -> int:
    """Return the pause after the first failure (`failures` is 0), the second (1), and so on."""
    return min(first_ms << min(failures, _MOST_DOUBLINGS), longest_ms)
