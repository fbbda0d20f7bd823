"""Commits of a client while a coordinator is in force: lost replies, one that leads no more, addresses."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.client.commits.client_committer import WARNINGS_APART_MS
from sparklog.core.commands import ResignCoordination
from sparklog.core.errors import (
    InconsistentClusterId,
    InvalidInput,
    OutcomeUnknown,
    SparklogError,
    TopicAlreadyExists,
    TryAgain,
)
from sparklog.core.types import EntryNumber
from sparklog.wire.messages import ClusterReply
from tests.client.scripted_coordinator import ScriptedCoordinator, scripted_coordinator
from tests.kit.hand_clock import HandClock

ROW = pa.table({"value": ["x"]})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    init_cluster(str(tmp_path / "cluster"))
    with connect(str(tmp_path / "cluster")) as cluster:
        cluster.create_topic("t")
        yield cluster


@pytest.fixture
def coordinator(cluster: Cluster) -> Iterator[ScriptedCoordinator]:
    """In force; it commits through a connection of its own."""
    with connect(cluster.connection.url) as own, scripted_coordinator(own) as scripted:
        scripted.claim()
        yield scripted


def records(cluster: Cluster) -> int:
    return cluster.read("t", partition=0).num_rows


# M: N-01 (loses)
@pytest.mark.parametrize("trouble", ["drop", "lose", "torn", "text", "away", "busy", "unknown", "few", "empty"])
def test_a_command_is_applied_once_whatever_becomes_of_replies(
    cluster: Cluster, coordinator: ScriptedCoordinator, trouble: str
) -> None:
    coordinator.script += [trouble, trouble]
    cluster.append("t", ROW)
    assert records(cluster) == 1
    submissions = [command.submission for each in coordinator.requests for command in each.commands]
    assert len({(each.command_id, each.n0) for each in submissions}) == 1
    assert [each.in_doubt for each in submissions] == [False, *[trouble not in ("away", "busy")] * 2]


def test_threads_share_requests_and_no_append_is_lost_or_doubled_whatever_becomes_of_replies(
    cluster: Cluster, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script += ["busy", "drop", "reply", "few", "lose", "reply", "unknown", "torn", "reply", "away"]
    coordinator.hold_until_shared()

    def work(number: int) -> None:
        for count in range(4):
            value = [f"{number}-{count}"]
            cluster.append("t", pa.table({"value": value, "partition": pa.array([0], pa.int32())}))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    values = [value.decode() for value in cluster.read("t", partition=0)["value"].to_pylist()]
    assert sorted(values) == sorted(f"{number}-{count}" for number in range(16) for count in range(4))
    assert coordinator.shared.is_set()


def test_an_error_of_the_command_is_that_of_the_caller(cluster: Cluster, coordinator: ScriptedCoordinator) -> None:
    with pytest.raises(TopicAlreadyExists, match="topic t exists"):
        cluster.create_topic("t")
    assert len(coordinator.requests) == 1


@pytest.mark.parametrize(("trouble", "error"), [("lose", OutcomeUnknown), ("away", TryAgain)])
def test_after_its_time_a_command_says_whether_it_may_have_landed(
    cluster: Cluster, coordinator: ScriptedCoordinator, trouble: str, error: type[SparklogError]
) -> None:
    coordinator.script += [trouble] * 1_000
    with pytest.raises(error, match="run 'sparklog coordinator resign --force'") as raised:
        cluster.append("t", ROW, timeout_ms=200)
    assert ("may have landed" in str(raised.value)) is (error is OutcomeUnknown)


def test_a_new_coordinator_is_found_though_the_one_before_hangs(tmp_path: Path) -> None:
    """It takes requests and answers none, as a machine that is cut off: nobody but the chain says who leads."""
    url = str(tmp_path)
    init_cluster(url, config={"broker.session.timeout.ms": 300})
    with (
        connect(url) as cluster,
        connect(url) as own,
        scripted_coordinator(own) as hangs,
        scripted_coordinator(own) as other,
    ):
        cluster.create_topic("t")
        hangs.claim()
        hangs.script += ["hang"] * 1_000
        hangs.hanging = lambda: other.claim(2) if len(hangs.requests) == 2 else None
        cluster.append("t", ROW)
        assert len(hangs.requests) >= 2
        assert other.requests
        assert records(cluster) == 1


def test_a_new_coordinator_is_found_by_the_chain(cluster: Cluster, coordinator: ScriptedCoordinator) -> None:
    with connect(cluster.connection.url) as own, scripted_coordinator(own) as other:
        coordinator.script += ["away"] * 1_000
        other.claim(2)
        cluster.append("t", ROW)
        assert len(other.requests) == 1


def test_after_a_resignation_the_process_commits_by_itself(cluster: Cluster, coordinator: ScriptedCoordinator) -> None:
    committer = cluster.connection.committer
    committer.commit_here(committer.begin(ResignCoordination(1)))
    cluster.append("t", ROW)
    assert (records(cluster), coordinator.requests) == (1, [])


def test_a_request_says_how_far_its_sender_has_read(cluster: Cluster, coordinator: ScriptedCoordinator) -> None:
    cluster.append("t", ROW)
    cluster.append("t", ROW)
    first, second = coordinator.requests
    assert 0 < first.seen < second.seen
    assert first.chain_id == cluster.connection.follower.state.chain_id


# ---- the address of a coordinator as that of its cluster ------------------------------------------------


def test_its_address_opens_its_cluster(cluster: Cluster, coordinator: ScriptedCoordinator) -> None:
    with connect(coordinator.address) as by_address:
        by_address.append("t", ROW)
        assert by_address.connection.url == cluster.connection.url
    assert records(cluster) == 1


def test_nothing_behind_an_address_is_an_error_to_try_again() -> None:
    with pytest.raises(TryAgain, match=r"no coordinator answers at http://127.0.0.1:1: "):
        connect("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://user:secret@127.0.0.1:1", "no user and no password, found one: http://…"),
        ("http://127.0.0.1:1/path", "is like http://host:7400, several are separated by commas, found http://127"),
        ("http://127.0.0.1:1?x=y", "is like http://host:7400"),
    ],
)
def test_an_address_is_a_host_and_a_port(url: str, text: str) -> None:
    with pytest.raises(InvalidInput, match="the address of a coordinator") as raised:
        connect(url)
    assert text in str(raised.value)


def test_a_coordinator_that_serves_the_chain_of_another_cluster_is_not_believed(
    cluster: Cluster, coordinator: ScriptedCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ClusterReply(
        "e" * 32, cluster.connection.url, EntryNumber(5), cluster.connection.follower.state.coordinator
    )
    monkeypatch.setattr(coordinator, "described", lambda: msgspec.msgpack.encode(other))
    with pytest.raises(InconsistentClusterId, match=f"wanted cluster {'e' * 32}"):
        connect(coordinator.address)


def test_a_command_that_waits_says_why_once_for_all_threads(
    cluster: Cluster,
    coordinator: ScriptedCoordinator,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = HandClock()
    monkeypatch.setattr(cluster.connection.committer, "clock", clock)
    coordinator.script += ["busy"] * 150  # with pauses of up to 0.4 s

    def work(number: int) -> None:
        cluster.append("t", ROW)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert records(cluster) == 4
    warnings = [each.getMessage() for each in caplog.records]
    assert 1 <= len(warnings) <= 1 + clock.monotonic_ms() // WARNINGS_APART_MS
    assert all(
        "500 commands wait already; if no coordinator of this cluster will come back" in each for each in warnings
    )
