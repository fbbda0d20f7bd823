"""Who commits, and why nobody can: what `cluster health` asks the coordinator in force."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sparklog.client import coordinator_health as subject
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.client.coordinator_health import check_coordinator
from sparklog.coordinator.run import listening
from sparklog.core.commands import ClaimCoordination
from tests.coordinator.served_coordinator import served_coordinator


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    init_cluster(str(tmp_path / "cluster"))
    with connect(str(tmp_path / "cluster")) as cluster:
        yield cluster


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a process that takes connections and never answers."""
    with listening("127.0.0.1", 0) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def claim(cluster: Cluster, epoch: int, address: str) -> None:
    committer = cluster.connection.committer
    committer.commit_here(committer.begin(ClaimCoordination(epoch, f"c{epoch}", address)))


def unused_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_without_a_coordinator_each_process_commits(cluster: Cluster) -> None:
    found = check_coordinator(cluster.connection)
    assert (found.committer, found.problem) == ("no coordinator: each process commits by itself", "")


def test_one_that_leads_is_named(cluster: Cluster) -> None:
    with served_coordinator(cluster.connection.url) as served:
        found = check_coordinator(cluster.connection)
        assert found.problem == ""
        assert found.committer.endswith(f" at {served.address} leads, epoch 1")


def test_one_that_is_gone_keeps_everybody_from_writing(cluster: Cluster) -> None:
    address = unused_address()
    claim(cluster, 1, address)
    found = check_coordinator(cluster.connection)
    assert found.problem.startswith(
        f"writes from here fail: c1 coordinates the cluster, epoch 1, but no coordinator answers at {address}"
    )
    assert found.problem.endswith("run 'sparklog coordinator resign --force'")


def test_one_that_hangs_does_so_too(cluster: Cluster, silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "PATIENCE_MS", 50)
    claim(cluster, 1, silent)
    assert f"writes from here fail: c1 coordinates the cluster, epoch 1, but {silent} did not answer" in (
        check_coordinator(cluster.connection).problem
    )


def test_a_process_that_stands_by_at_its_address_is_no_leader(cluster: Cluster) -> None:
    with served_coordinator(cluster.connection.url, leads=False) as served:
        claim(cluster, 1, served.address)
        found = check_coordinator(cluster.connection)
        assert f"the process at {served.address} stands by; a standby takes over within 9 seconds" in found.problem
        assert found.committer == f"c1 at {served.address} should lead, epoch 1"


def test_the_one_that_takes_over_meanwhile_is_asked(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    claim(cluster, 1, unused_address())
    problem_of = subject._problem

    def overtaken(*asked: object) -> str:
        problem = problem_of(*asked)  # type: ignore[arg-type]
        if problem:
            claim(cluster, 2, served.address)
            served.service.follower.catch_up()
            monkeypatch.setattr(type(served.service), "leads", True)
        return problem

    with served_coordinator(cluster.connection.url, leads=False) as served:
        monkeypatch.setattr(subject, "_problem", overtaken)
        found = check_coordinator(cluster.connection)
    assert (found.committer, found.problem) == (f"c2 at {served.address} leads, epoch 2", "")


def test_something_else_at_its_address_is_named(cluster: Cluster) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        claim(cluster, 1, address)
        problem = check_coordinator(cluster.connection).problem
        server.shutdown()
    assert f"wanted a coordinator at {address}, found a server that answers 404 to /readyz" in problem


def test_who_has_only_addresses_hears_that_nobody_leads(cluster: Cluster) -> None:
    with served_coordinator(cluster.connection.url, leads=False) as served, connect(served.address) as through:
        found = check_coordinator(through.connection)
        assert found.problem.startswith("writes fail: no coordinator leads")
