"""An agent that has nothing to fetch: it waits for the coordinator's news, and looks by itself without it."""

from __future__ import annotations

import threading

import pytest

from sparklog.agent.agent_requests import AwaitNews, Follow, Reply, Request, SendHeartbeat
from sparklog.agent.news import LONGEST_MS, News
from sparklog.agent.run import AgentRun
from sparklog.client.waiting import Waiting
from sparklog.core.commands import ClaimCoordination
from sparklog.core.errors import TryAgain
from sparklog.core.types import StoreId
from tests.agent.agent_world import DrivenAgent, ReplicatedCluster, replicated_cluster
from tests.core.replicated_log import ReplicatedLog

POLL_MS = 500  # replica.fetch.wait.max.ms


@pytest.fixture
def world() -> ReplicatedCluster:
    """A claim is in force; everybody commits by himself."""
    world = replicated_cluster()
    committer = world.cluster.connection.committer
    committer.submit = committer.commit_here  # type: ignore[method-assign]
    world.submit(ClaimCoordination(1, "one", "http://one"))
    return world


class Coordinator:
    """Answers an agent's heartbeats and its requests for news: with `reply`, after `longest_ms` if that is False."""

    def __init__(self, reply: Reply = False) -> None:
        self.reply = reply

    def __call__(self, request: Request) -> Reply:
        if isinstance(request, AwaitNews):
            return "no" if self.reply is False else self.reply
        return True if isinstance(request, SendHeartbeat) else None


def idle(world: ReplicatedCluster, coordinator: Coordinator) -> DrivenAgent:
    """The agent of b, once it has said that it is up."""
    agent = DrivenAgent(world, "b", before=coordinator)
    while not agent.count(AwaitNews):
        agent.step()
    agent.asked.clear()
    return agent


# M: P-10
def test_it_does_not_look_while_the_coordinator_watches() -> None:
    log = ReplicatedLog()
    log.submit(ClaimCoordination(1, "one", "http://one"))
    news = News()
    news.begin(log.state, is_idle=True)
    (asked,) = news.due(1_000)
    assert (asked.seen, asked.longest_ms) == (log.state.n, LONGEST_MS)
    assert news.postponed(1_500) == 1_000 + LONGEST_MS
    assert (news.due(1_001), news.arrived) == ([], False)
    news.answered(True)
    assert (news.arrived, news.postponed(1_500)) == (True, 1_500)


def test_one_request_is_under_way_at_a_time() -> None:
    log = ReplicatedLog()
    log.submit(ClaimCoordination(1, "one", "http://one"))
    news = News()
    news.begin(log.state, is_idle=True)
    assert len(news.due(0)) == 1
    news.begin(log.state, is_idle=False)
    assert (news.due(100), news.postponed(600)) == ([], 600), "with something to fetch it looks as without it"
    news.begin(log.state, is_idle=True)
    assert (news.due(200), news.postponed(700)) == ([], LONGEST_MS)
    assert news.postponed(LONGEST_MS + 1) == LONGEST_MS + 1, "an answer that does not come holds nothing up"


def test_without_a_coordinator_nothing_is_asked() -> None:
    news = News()
    news.begin(ReplicatedLog().state, is_idle=True)
    assert (news.due(0), news.postponed(500)) == ([], 500)


def test_it_waits_for_no_longer_than_half_the_time_in_which_a_follower_may_lag() -> None:
    log = ReplicatedLog(config={"replica.lag.time.max.ms": "1000"})
    log.submit(ClaimCoordination(1, "one", "http://one"))
    news = News()
    news.begin(log.state, is_idle=True)
    assert news.due(0)[0].longest_ms == 500


# M: P-10
def test_news_make_it_fetch_at_once(world: ReplicatedCluster) -> None:
    coordinator = Coordinator()
    agent = idle(world, coordinator)
    world.write("0", on="ac")
    coordinator.reply = True
    began_ms = agent.now_ms
    while world.value().log_end(StoreId("b")) == 0:
        agent.step()
    assert agent.now_ms - began_ms <= POLL_MS + 1


@pytest.mark.parametrize("reply", [TryAgain("no coordinator"), "none"])
def test_without_news_it_looks_as_often_as_without_a_coordinator(world: ReplicatedCluster, reply: Reply) -> None:
    agent = idle(world, Coordinator(reply))
    agent.run(for_ms=10 * POLL_MS)
    assert 8 <= agent.count(Follow) <= 12


# M: P-10
def test_a_request_that_waits_for_news_does_not_hold_up_the_end_of_the_agent(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, let_go = threading.Event(), threading.Event()

    def hangs(waiting: Waiting, *_: object) -> None:
        asked.set()
        let_go.wait(60)

    monkeypatch.setattr(Waiting, "at_coordinator", hangs)
    monkeypatch.setattr(type(world.cluster.connection.committer), "heartbeat", lambda *_: None)
    run = AgentRun(world.cluster.connection, StoreId("b"), lambda note: None)
    thread = threading.Thread(target=run.run)
    thread.start()
    assert asked.wait(60)
    run.stop()
    thread.join(60)
    ended = not thread.is_alive()
    let_go.set()
    assert ended
    world.cluster.close()
