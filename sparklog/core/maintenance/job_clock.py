"""The time that a job may count with, bounded by the clocks of the coordinator and of the metadata's store."""

from __future__ import annotations

from typing import Final

from sparklog.core.describe.readable import point_in_time
from sparklog.core.errors import InvalidInput
from sparklog.core.state import ClusterState

MOST_AHEAD_MS: Final = 86_400_000


def job_time(state: ClusterState, now_ms: int) -> int:
    """Return `now_ms`, a machine's time, or that of the coordinator in force if it is earlier.

    A coordinator in force writes an entry every few seconds, so the state's time is its time. Without one, the chain
    may have been quiet for days, so only the machine's clock counts.
    """
    return min(now_ms, state.time_ms) if state.coordinator.in_force else now_ms


def check_clock(state: ClusterState, now_ms: int) -> None:
    """Raise InvalidInput if `now_ms` is more than a day after the newest entry, and a coordinator is in force.

    The chain of a coordinator in force is never quiet for a day. By a clock that is ahead, retention would drop
    records before their time. (A coordinator that is gone, but did not resign, accepts no commands from a job.)
    """
    if state.coordinator.in_force and now_ms > state.time_ms + MOST_AHEAD_MS:
        raise InvalidInput(
            f"wanted a clock like that of coordinator {state.coordinator.name}, whose newest entry is of "
            f"{point_in_time(state.time_ms)}, found {point_in_time(now_ms)} on this machine: correct the clock that is "
            "wrong, or if that coordinator is gone, run 'sparklog coordinator resign --force'"
        )


def is_days_ahead(now_ms: int, put_ms: int) -> bool:
    """True if `now_ms` is more than a day after `put_ms`, the time at which a store got an object by its own clock."""
    return now_ms > put_ms + MOST_AHEAD_MS


def check_clock_of_store(url: str, put_ms: int, now_ms: int) -> None:
    """Raise InvalidInput if `now_ms` is more than a day ahead of the store at `url`.

    `put_ms`: the time, by the store's clock, at which it got an object that was put a moment ago.
    """
    if is_days_ahead(now_ms, put_ms):
        raise InvalidInput(
            f"wanted a clock like that of {url}, which shows {point_in_time(put_ms)}, found {point_in_time(now_ms)} on "
            "this machine: correct the clock that is wrong"
        )
