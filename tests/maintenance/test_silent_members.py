"""Members that crashed when nobody in their group was left to evict them: jobs do, and by no clock alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from sparklog.chain.floor import RECENT_ENTRIES
from sparklog.client.groups.member import GroupMember
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from tests.kit.hand_clock import HandClock
from tests.kit.silent_console import SILENT
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog, maintained

SESSION_MS = 45_000


@pytest.fixture
def log() -> Iterator[MaintainedLog]:
    yield from maintained(f"memory://{uuid.uuid4().hex}")


def join(log: MaintainedLog, group: str = "g") -> GroupMember:
    if not log.model:
        log.topic("t")
    return GroupMember(log.cluster.connection, group, ["t"], session_timeout_ms=SESSION_MS)


def members(log: MaintainedLog, group: str = "g") -> int:
    return len(log.cluster.describe_group(group).members)


def at_work(log: MaintainedLog, member: GroupMember) -> None:
    """A few entries are written while the member stays one."""
    log.clock.at_ms += SESSION_MS // 3
    member.poll()
    log.append("t", 0, 1)


def test_a_member_that_crashed_is_gone_once_the_whole_chain_has_gone_on_for_the_delay(log: MaintainedLog) -> None:
    join(log)
    for _ in range(8):
        log.clock.at_ms += DAY_MS
        log.retention()
        assert members(log) == 1
    log.busy()
    log.retention()
    assert members(log) == 0


@pytest.mark.parametrize("job", ["retention", "vacuum"])
def test_with_a_member_that_crashed_nobody_goes_who_was_at_work_within_the_delay(log: MaintainedLog, job: str) -> None:
    join(log)
    log.append("t", 0, 1)
    at_work_ms = log.clock.at_ms + 4 * DAY_MS
    log.clock.at_ms = at_work_ms
    join(log, "h")
    log.append("t", 0, 1)
    log.clock.at_ms += 4 * DAY_MS
    log.busy()
    getattr(log, job)()
    assert (members(log), members(log, "h")) == (0, 1)
    log.clock.at_ms = at_work_ms + 7 * DAY_MS + 1
    log.busy()
    getattr(log, job)()
    assert members(log, "h") == 0


def test_a_delay_shorter_than_a_session_evicts_nobody() -> None:
    """A member shows itself once in a third of its session, however soon uploads are given up."""
    for delay_ms, left in ((SESSION_MS - 1, 1), (SESSION_MS, 0)):
        (log,) = maintained(f"memory://{uuid.uuid4().hex}", floor_delay_ms=delay_ms)
        join(log)
        log.append("t", 0, 1)
        log.clock.at_ms += SESSION_MS + 1
        log.busy()
        log.retention()
        assert members(log) == left


def test_a_clock_that_is_far_ahead_evicts_nobody_who_is_at_work(log: MaintainedLog) -> None:
    """Also if its jobs run again and again between two signs of life."""
    member, wrong = join(log), HandClock(log.clock.at_ms)
    for _ in range(4):
        at_work(log, member)
        wrong.at_ms = log.clock.at_ms + 20 * DAY_MS
        for _ in range(3):
            for run in (run_retention, run_roll):
                run(log.url, clock=wrong, console=SILENT)
                assert members(log) == 1
    assert log.cluster.connection.follower.catch_up().state.floor > 0
    assert not member.poll(), "and it is still in the same generation"


@pytest.mark.parametrize("job", ["retention", "vacuum"])
def test_a_time_that_was_given_evicts_nobody_who_is_at_work(log: MaintainedLog, job: str) -> None:
    member = join(log)
    for _ in range(RECENT_ENTRIES):
        at_work(log, member)
    now_ms = log.clock.at_ms + 30 * DAY_MS
    getattr(log, job)(now_ms=now_ms)
    assert log.cluster.connection.follower.catch_up().state.floor > 0
    assert members(log) == 1
