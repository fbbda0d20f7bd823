"""The shell of an agent: threads, errors that nobody foresaw, and a stop from outside."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sparklog.agent import run as agent_run
from sparklog.agent.agent import EXAMINE_EVERY_MS
from sparklog.agent.agent_requests import Fetch, Note, ReadIncarnation, Reply, Request
from sparklog.agent.run import AgentRun, perform
from sparklog.chain.commit.committer import Committer
from sparklog.client.commits.client_committer import ClientCommitter
from sparklog.core.commands import ClaimCoordination, Submission
from sparklog.core.coordination import Author
from sparklog.core.errors import BrokerIdNotRegistered, StoreUnavailable
from sparklog.core.records import CommandResult
from sparklog.core.types import StoreId
from sparklog.log.incarnation import AnotherIncarnation
from tests.agent.agent_world import DrivenAgent, replicated_cluster
from tests.kit.hand_clock import HandClock


def test_a_run_goes_on_with_new_writes_until_it_is_stopped() -> None:
    world = replicated_cluster()
    world.write("0", on="ab")
    caught_up = threading.Event()

    def say(note: Note) -> None:
        if note.event == "caught-up":
            caught_up.set()

    run = AgentRun(world.cluster.connection, StoreId("c"), say)
    thread = threading.Thread(target=run.run)
    thread.start()
    assert caught_up.wait(60)
    run.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert world.replicas() == "a:abc a1 b1 c1"
    assert world.state.stores[StoreId("c")].agent_up is None
    world.cluster.close()


def test_an_error_that_nobody_foresaw_does_not_leave_the_agent_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    world = replicated_cluster()
    world.write("0", on="ab")

    def broken(*_: object) -> None:
        raise ZeroDivisionError("in a copy")

    monkeypatch.setattr(agent_run, "fetch_in_life", broken)
    said: list[Note] = []
    with pytest.raises(StoreUnavailable, match="Fetch failed: ZeroDivisionError"):
        AgentRun(world.cluster.connection, StoreId("c"), said.append, once=True, clock=HandClock(look_ms=300)).run()
    assert [each.event for each in said] == ["behind", "error"]
    world.cluster.close()


def test_a_copy_below_a_disk_that_is_not_mounted_does_not_count_once_it_is_mounted(tmp_path: Path) -> None:  # M: P-07
    world = replicated_cluster(str(tmp_path / "cluster"))
    world.write("0", on="ab")
    mounted, disk = tmp_path / "cluster" / "c", tmp_path / "disk"
    outages: list[Reply] = []

    def without_the_disk(request: Request) -> Reply:
        if outages or not isinstance(request, Fetch):
            return None
        mounted.rename(disk)
        mounted.mkdir()
        outages.append(perform(request, StoreId("c"), world.cluster.connection))
        assert any(path.is_file() for path in mounted.rglob("*.arrow")), "it was copied"
        mounted.rename(tmp_path / "below")
        disk.rename(mounted)
        return outages[0]

    DrivenAgent(world, "c", before=without_the_disk).run(10_000)
    assert isinstance(outages[0], AnotherIncarnation)
    assert world.replicas() == "a:abc a1 b1 c1"
    assert world.objects("c") == world.objects("a")
    world.cluster.close()


# M: P-07
def test_a_disk_that_is_mounted_again_before_anything_was_copied_below_it_is_examined_at_once(tmp_path: Path) -> None:
    """Its loss was reported while it was not there, so every copy fails now, and no report makes the agent look."""
    world = replicated_cluster(str(tmp_path / "cluster"))
    world.write("0")
    mounted, disk = tmp_path / "cluster" / "c", tmp_path / "disk"
    mounted.rename(disk)
    agent = DrivenAgent(world, "c", before=lambda request: StoreUnavailable("") if isinstance(request, Fetch) else None)
    agent.run()
    assert world.replicas() == "a:ab a1 b1 c0"
    mounted.rename(tmp_path / "below")
    disk.rename(mounted)
    agent.before = lambda request: None
    agent.run(EXAMINE_EVERY_MS // 10)
    assert world.replicas() == "a:abc a1 b1 c1"
    world.cluster.close()


def test_a_store_that_is_removed_while_its_agent_looks_is_named() -> None:
    world = replicated_cluster()
    reply = perform(ReadIncarnation(), StoreId("gone"), world.cluster.connection)
    assert isinstance(reply, BrokerIdNotRegistered)
    world.cluster.close()


def test_an_agent_that_stops_does_not_wait_long_for_a_dead_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    world = replicated_cluster()
    committer = world.cluster.connection.committer
    assert isinstance(committer, ClientCommitter)
    nobody_there = "http://127.0.0.1:9"
    author = Author("coordinator", "dead", 1)
    claim = ClaimCoordination(1, "dead", nobody_there)
    Committer(committer.follower, author).submit(committer.begin(claim))
    waited_ms: list[int] = []

    def submit(submission: Submission, timeout_ms: int) -> CommandResult:
        waited_ms.append(timeout_ms)
        return ClientCommitter.submit(committer, submission, timeout_ms=1)

    monkeypatch.setattr(committer, "submit", submit)
    said: list[Note] = []

    def say(note: Note) -> None:
        said.append(note)
        run.stop()

    run = AgentRun(world.cluster.connection, StoreId("c"), say, clock=HandClock(look_ms=300))
    run.run()
    assert "did not commit command" in said[0].text
    assert max(waited_ms) <= 20_000  # with a manager that kills after 30 s, as Kubernetes does
    world.cluster.close()
