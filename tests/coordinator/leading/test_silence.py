"""What a coordinator finds out about stores: which agents are silent, and which followers lag."""

from __future__ import annotations

import pytest

from sparklog.coordinator.leading.silence import Watching
from sparklog.core.commands import (
    AgentDown,
    AgentUp,
    Command,
    CommitOffsets,
    DropLagging,
    FenceStore,
    JoinGroup,
    LeaveGroup,
)
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, StoreId
from tests.core.replicated_log import ReplicatedLog

SESSION_MS = 9_000
LAG_MS = 30_000
A, B, C = (StoreId(name) for name in "abc")


@pytest.fixture
def log() -> ReplicatedLog:
    """Replicas on a, b and c, whose agents are up."""
    log = ReplicatedLog()
    for store in (A, B, C):
        log.submit(AgentUp(store, log.registration(store)))
    return log


def due(watching: Watching, state: ClusterState, now_ms: int, *, looked_ms: int | None = None) -> list[Command]:
    """What is due at `now_ms`, in a process that has looked once a third of a session since `looked_ms`."""
    for look_ms in range(now_ms if looked_ms is None else looked_ms, now_ms, SESSION_MS // 3):
        assert due(watching, state, look_ms) == []
    watching.observe(state.fork(), now_ms, now_ms)
    return list(watching.due(state, now_ms))


def test_a_member_of_a_group_that_is_silent_for_its_session_is_evicted(log: ReplicatedLog) -> None:  # M: I-07
    watching = Watching(SESSION_MS)
    for member in ("a", "b"):
        log.submit(JoinGroup("billing", member, ("orders",), 6_000))
    assert due(watching, log.state, 5_999, looked_ms=0) == []
    for store in (A, B, C):
        watching.heard(store, log.registration(store), 5_999)
    log.submit(CommitOffsets(log.state.chain_id, "billing", (), "b", 2, 1))
    eviction = LeaveGroup("billing", "a", EntryNumber(log.state.n - 2))
    assert due(watching, log.state, 6_000) == [eviction]
    log.submit(eviction)
    assert due(watching, log.state, 9_000) == []
    assert [each.member_id for each in log.state.groups["billing"].members] == ["b"]


def test_a_member_of_a_group_that_sends_heartbeats_stays(log: ReplicatedLog) -> None:  # M: I-07
    watching = Watching(SESSION_MS)
    for member in ("a", "b"):
        log.submit(JoinGroup("billing", member, ("orders",), 6_000))
    joined_b = EntryNumber(log.state.n)
    due(watching, log.state, 0)
    for now_ms in range(2_000, 20_000, 2_000):
        watching.heard_member("billing", "a", now_ms)
        watching.heard_member("billing", "nobody", now_ms)
        watching.heard_member("nothing", "a", now_ms)
        for store in (A, B, C):
            watching.heard(store, log.registration(store), now_ms)
        wanted = [LeaveGroup("billing", "b", joined_b)] if now_ms >= 6_000 else []
        assert due(watching, log.state, now_ms) == wanted


def test_a_pause_of_the_process_counts_against_no_member_of_a_group(log: ReplicatedLog) -> None:
    """Their heartbeats had waited to be read."""
    watching = Watching(SESSION_MS)
    log.submit(JoinGroup("billing", "a", ("orders",), 6_000))
    due(watching, log.state, 0)
    assert due(watching, log.state, 100_000) == []
    for store in (A, B, C):
        watching.heard(store, log.registration(store), 102_999)
    assert due(watching, log.state, 102_999, looked_ms=100_000) == []
    assert due(watching, log.state, 103_000) == [LeaveGroup("billing", "a", EntryNumber(log.state.n))]


# M: P-08
def test_an_agent_that_is_silent_for_a_session_is_down(log: ReplicatedLog) -> None:
    watching = Watching(SESSION_MS)
    assert due(watching, log.state, 3_000, looked_ms=0) == []
    for store in (A, B):
        watching.heard(store, log.registration(store), 5_000)
    assert due(watching, log.state, 8_999, looked_ms=6_000) == []
    assert due(watching, log.state, 9_000) == [AgentDown(C, log.registration(C))]


def test_time_in_which_the_process_itself_was_paused_does_not_count(log: ReplicatedLog) -> None:
    """Nobody heard the heartbeats of that time. The third of a session between two looks is not a pause."""
    watching = Watching(SESSION_MS)
    due(watching, log.state, 0)
    watching.heard(A, log.registration(A), 99_999)  # it had waited to be read
    assert due(watching, log.state, 100_000) == []
    assert due(watching, log.state, 105_999, looked_ms=100_000) == []
    assert due(watching, log.state, 106_000) == [AgentDown(store, log.registration(store)) for store in (B, C)]


def test_one_that_comes_back_has_a_session_before_it_is_silent_again(log: ReplicatedLog) -> None:
    """Its AgentUp may have come by the chain alone, and before its first heartbeat."""
    watching = Watching(SESSION_MS)
    assert len(due(watching, log.state, 9_000, looked_ms=0)) == 3
    assert due(watching, log.state, 17_999, looked_ms=9_001) == []


def test_nobody_is_silent_before_a_session_of_this_coordinator_has_passed(log: ReplicatedLog) -> None:
    watching = Watching(SESSION_MS)
    assert due(watching, log.state, 1_000_000) == []
    assert due(watching, log.state, 1_008_999, looked_ms=1_000_000) == []
    assert len(due(watching, log.state, 1_009_000)) == 3


def test_a_write_that_reached_a_store_proves_that_it_lives(log: ReplicatedLog) -> None:
    watching = Watching(SESSION_MS)
    due(watching, log.state, 6_000, looked_ms=0)
    watching.written(log.write_of("ab"), 8_000)
    assert due(watching, log.state, 9_000) == [AgentDown(C, log.registration(C))]


def test_a_new_registration_begins_a_new_session(log: ReplicatedLog) -> None:
    watching = Watching(SESSION_MS)
    assert due(watching, log.state, 8_000, looked_ms=0) == []
    watching.heard(A, log.registration(A) + 100, 8_999)  # of another life
    assert AgentDown(A, log.registration(A)) in due(watching, log.state, 9_000)


def test_stores_without_an_agent_and_fenced_ones_are_not_watched() -> None:
    log = ReplicatedLog()
    log.submit(AgentUp(B, log.registration(B)))
    log.submit(FenceStore(B))
    watching = Watching(SESSION_MS)
    due(watching, log.state, 0)
    assert due(watching, log.state, 100_000, looked_ms=0) == []


# M: P-01
def test_followers_that_lag_leave_the_isr_whoever_leads(log: ReplicatedLog) -> None:
    watching = Watching(SESSION_MS)
    due(watching, log.state, 0)
    log.write_to_leader("a")
    commands: list[Command] = []
    for now_ms in range(1_000, 3 * LAG_MS, 1_000):
        for store in (A, B, C):
            watching.heard(store, log.registration(store), now_ms)
        commands += due(watching, log.state, now_ms)
        if commands:
            break
    (dropped,) = commands
    assert isinstance(dropped, DropLagging)
    assert set(dropped.lagging[0].stores) == {B, C}
