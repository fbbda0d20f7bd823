"""Heartbeats of an agent: only while a coordinator is in force, in time, and one after the other."""

from __future__ import annotations

from sparklog.agent.heartbeats import Heartbeats
from sparklog.core.commands import AgentDown, AgentUp, ClaimCoordination, ResignCoordination
from sparklog.core.types import StoreId
from tests.core.replicated_log import ReplicatedLog

A = StoreId("a")
CLAIM = ClaimCoordination(1, "one", "http://one")


def watched() -> tuple[ReplicatedLog, Heartbeats]:
    log = ReplicatedLog(config={"broker.session.timeout.ms": "9000"})
    log.submit(AgentUp(A, log.registration("a")))
    log.submit(CLAIM)
    heartbeats = Heartbeats(A)
    heartbeats.observe(log.state)
    return log, heartbeats


def test_three_are_sent_in_a_session() -> None:
    log, heartbeats = watched()
    sent = []
    for now_ms in range(0, 9_000, 100):
        for heartbeat in heartbeats.due(now_ms):
            sent.append(now_ms)
            assert heartbeat.registration == log.registration("a")
            heartbeats.answered()
    assert sent == [0, 3_000, 6_000]


def test_the_next_one_waits_for_the_reply() -> None:
    _, heartbeats = watched()
    assert len(heartbeats.due(0)) == 1
    assert (heartbeats.due(5_000), heartbeats.wake_ms) == ([], None)
    heartbeats.answered()
    assert heartbeats.wake_ms == 3_000
    assert len(heartbeats.due(5_000)) == 1


def test_none_is_sent_without_a_coordinator() -> None:
    log, heartbeats = watched()
    log.submit(ResignCoordination(1))
    heartbeats.observe(log.state)
    assert (heartbeats.due(0), heartbeats.wake_ms) == ([], None)


def test_none_is_sent_while_the_chain_says_that_the_agent_is_down() -> None:
    log, heartbeats = watched()
    log.submit(AgentDown(A, log.registration("a")))
    heartbeats.observe(log.state)
    assert heartbeats.due(0) == []
    log.submit(AgentUp(A, log.registration("a")))
    heartbeats.observe(log.state)
    assert len(heartbeats.due(0)) == 1


def test_none_is_sent_for_a_fenced_store() -> None:
    log, heartbeats = watched()
    log.fence("a")
    heartbeats.observe(log.state)
    assert heartbeats.due(0) == []
