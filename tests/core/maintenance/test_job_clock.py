"""A coordinator in force bounds the clock of a job; a clock that is days ahead of it is refused."""

from __future__ import annotations

import pytest

from sparklog.core.commands import ClaimCoordination, ResignCoordination
from sparklog.core.errors import InvalidInput
from sparklog.core.maintenance.job_clock import MOST_AHEAD_MS, check_clock, check_clock_of_store, job_time
from tests.core.decided_log import DecidedLog


def test_only_a_coordinator_in_force_bounds_the_time_of_a_job() -> None:
    log = DecidedLog()
    later_ms = log.state.time_ms + 1
    assert job_time(log.state, later_ms) == later_ms
    log.submit(ClaimCoordination(1, "one", "http://one:7400"))
    time_ms = log.state.time_ms
    assert [job_time(log.state, time_ms + by_ms) for by_ms in (-1, 0, 1)] == [time_ms - 1, time_ms, time_ms]
    log.submit(ResignCoordination(1))
    assert job_time(log.state, log.state.time_ms + 1) == log.state.time_ms + 1


def test_a_clock_that_is_days_ahead_of_a_coordinator_is_refused() -> None:
    log = DecidedLog()
    log.submit(ClaimCoordination(1, "one", "http://one:7400"))
    now_ms = log.state.time_ms
    for behind_ms in (-30 * MOST_AHEAD_MS, 0, MOST_AHEAD_MS):
        check_clock(log.state, now_ms + behind_ms)
    with pytest.raises(InvalidInput, match=r"wanted a clock like that of coordinator one, .* resign --force"):
        check_clock(log.state, now_ms + MOST_AHEAD_MS + 1)
    log.submit(ResignCoordination(1))
    check_clock(log.state, now_ms + 100 * MOST_AHEAD_MS)


def test_a_clock_that_is_days_ahead_of_the_store_is_refused() -> None:
    for behind_ms in (-30 * MOST_AHEAD_MS, 0, MOST_AHEAD_MS):
        check_clock_of_store("s3://logs", 0, behind_ms)
    with pytest.raises(InvalidInput, match=r"wanted a clock like that of s3://logs, which shows 1970-01-01"):
        check_clock_of_store("s3://logs", 0, MOST_AHEAD_MS + 1)
