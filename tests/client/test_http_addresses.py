"""Clients that have only addresses of coordinators: they follow, commit and fail over without the metadata."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.client.connection import shared
from sparklog.core.commands import ResignCoordination
from sparklog.core.errors import (
    InconsistentClusterId,
    InvalidInput,
    OutcomeUnknown,
    SparklogError,
    StoreReadOnly,
    TlsFailed,
    TryAgain,
    UnknownTopicOrPartition,
)
from sparklog.storage.http import coordinator_addresses as coordinators_module
from sparklog.storage.http.calls import Calls, NoCoordinatorAnswers
from sparklog.storage.http.coordinator_addresses import addresses_in
from sparklog.storage.open_store import open_store
from sparklog.wire.messages import CLUSTER
from tests.client.scripted_coordinator import ScriptedCoordinator, scripted_coordinator
from tests.client.shared_connections import forget_shared
from tests.coordinator.served_coordinator import ServedCoordinator, served_coordinator
from tests.servers.local_server import free_port
from tests.servers.tls import certificate_at

ROW = pa.table({"value": ["x"]})
NOWHERE = "http://127.0.0.1:1"
HIDDEN = "file:///where/no/client/can/read"


@pytest.fixture
def metadata() -> str:
    """A cluster with topic t, its only store somewhere else than its metadata."""
    return new_cluster()


def new_cluster() -> str:
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url, stores={"a": f"{url}-data"})
    with connect(url) as cluster:
        cluster.create_topic("t", partitions=2)
    return url


@pytest.fixture
def leader(metadata: str) -> Iterator[ServedCoordinator]:
    with hidden_coordinator(metadata) as coordinator:
        yield coordinator


@contextmanager
def hidden_coordinator(metadata: str, **how: object) -> Iterator[ServedCoordinator]:
    """A coordinator of this cluster; where its metadata is, clients can't read."""
    with served_coordinator(HIDDEN, store=open_store(metadata), **how) as coordinator:  # type: ignore[arg-type]
        yield coordinator


@contextmanager
def two_coordinators(metadata: str) -> Iterator[tuple[ServedCoordinator, ServedCoordinator]]:
    """The first one leads; the second one looks often whether it has to."""
    with hidden_coordinator(metadata) as first, hidden_coordinator(metadata, session_ms=600) as second:
        yield first, second


def records(cluster: Cluster) -> int:
    return sum(cluster.read("t", partition=partition).num_rows for partition in (0, 1))


# M: N-02
def test_a_client_needs_no_access_to_the_metadata(leader: ServedCoordinator) -> None:
    with connect(leader.address) as cluster:
        cluster.create_topic("made", partitions=3)
        cluster.append("t", ROW)
        assert (cluster.topics(), records(cluster)) == (["made", "t"], 1)
        assert cluster.connection.url == HIDDEN
        assert [store.store for store in cluster.stores()] == ["a"]
        with pytest.raises(UnknownTopicOrPartition):
            cluster.describe("tt")


def test_what_one_client_writes_the_other_sees_whichever_coordinator_it_asks(
    metadata: str, leader: ServedCoordinator
) -> None:
    with (
        hidden_coordinator(metadata, leads=False) as standby,
        connect(leader.address) as writer,
        connect(standby.address) as reader,
    ):
        for written in range(1, 4):
            writer.append("t", ROW)
            assert records(reader) == written


def test_the_first_address_that_answers_is_used(leader: ServedCoordinator) -> None:
    with connect(f"{NOWHERE}, {leader.address}/") as cluster:
        cluster.append("t", ROW)
        assert records(cluster) == 1


# M: N-01 (kills)
def test_a_living_client_goes_on_at_the_next_address(metadata: str) -> None:
    with two_coordinators(metadata) as (first, second), connect(f"{first.address},{second.address}") as cluster:
        cluster.append("t", ROW)
        first.stop()
        cluster.append("t", ROW)
        assert records(cluster) == 2


def test_a_coordinator_whose_own_address_can_not_be_reached_is_asked_at_the_given_one(metadata: str) -> None:
    with hidden_coordinator(metadata, advertised=NOWHERE) as leader, connect(leader.address) as cluster:
        cluster.append("t", ROW)
        assert records(cluster) == 1


def test_a_command_waits_until_somebody_coordinates(metadata: str) -> None:
    with hidden_coordinator(metadata, leads=False) as standby, ThreadPoolExecutor(1) as pool:
        port = free_port()
        with connect(f"{standby.address},http://127.0.0.1:{port}") as cluster:
            result = pool.submit(cluster.append, "t", ROW)
            with hidden_coordinator(metadata, port=port):
                assert result.result(60).records == 1


def test_without_any_for_its_whole_time_a_command_says_what_to_do(metadata: str) -> None:
    with hidden_coordinator(metadata, leads=False) as standby, connect(standby.address) as cluster:
        with pytest.raises(
            TryAgain, match=r"no coordinator leads the cluster, so command [0-9a-f]{32} was not"
        ) as raised:
            cluster.append("t", ROW, timeout_ms=200)
        assert "start 'sparklog coordinator', or give --cluster the place of the metadata" in str(raised.value)
        assert records(cluster) == 0


def test_a_command_whose_reply_was_lost_is_in_doubt_at_the_next_address(metadata: str) -> None:
    with (
        connect(metadata) as own,
        scripted_coordinator(own) as first,
        scripted_coordinator(own) as second,
        connect_once_claimed(first, f"{first.address},{second.address}") as cluster,
    ):
        first.script += ["drop", "lose"]
        cluster.append("t", ROW)
        assert records(cluster) == 1
        requests = [*first.requests, *second.requests]
        sent = [command.submission for request in requests for command in request.commands]
        assert [submission.in_doubt for submission in sent] == [False, *[True] * (len(sent) - 1)]


def connect_once_claimed(coordinator: ScriptedCoordinator, url: str) -> Cluster:
    coordinator.claim()
    return connect(url)


def test_when_all_are_gone_the_error_names_them_all(metadata: str) -> None:
    with (
        hidden_coordinator(metadata) as first,
        hidden_coordinator(metadata, leads=False) as second,
        connect(f"{first.address},{second.address}") as cluster,
    ):
        submission = cluster.connection.committer.begin(ResignCoordination(1))
        first.stop()
        second.stop()
        with pytest.raises(NoCoordinatorAnswers, match=r"none of 2 addresses works: ") as raised:
            cluster.topics()
        assert (first.address in str(raised.value), second.address in str(raised.value)) == (True, True)
        assert raised.value.code == "COORDINATOR_NOT_AVAILABLE"
        with pytest.raises((TryAgain, OutcomeUnknown), match="sparklog coordinator"):
            cluster.connection.committer.submit(submission, 200)


def test_such_a_client_does_not_write_to_the_chain_itself(leader: ServedCoordinator) -> None:
    with connect(leader.address) as cluster:
        committer = cluster.connection.committer
        with pytest.raises(InvalidInput, match="can't commit by itself: give --cluster the place of the metadata"):
            committer.commit_here(committer.begin(ResignCoordination(1)))
        store = cluster.connection.follower.store
        for write in (
            lambda: store.put_if_absent("meta/log/x", b""),
            lambda: store.upload("meta/log/x"),
            lambda: store.copy_from(store, "meta/log/x", "meta/log/y"),
            lambda: store.delete("meta/log/x"),
            lambda: store.remove_abandoned(0),
        ):
            with pytest.raises(StoreReadOnly, match="the metadata can only be read: give --cluster the place"):
                write()


# ---- something else is at the address ---------------------------------------------------------------------


@contextmanager
def other_server(status: int, kind: str = "text/html", body: bytes = b"<html>") -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name that the server looks for

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("status", "kind"), [(200, "text/html"), (404, "text/html"), (200, "application/msgpack")])
def test_a_server_that_is_no_coordinator_is_named_and_passed_over(
    leader: ServedCoordinator, status: int, kind: str
) -> None:
    with other_server(status, kind) as address:
        with pytest.raises(InvalidInput) as raised:
            connect(address)
        assert address in str(raised.value) or "maybe it runs another version" in str(raised.value)
        if kind == "text/html":
            assert f"found a server that answers {status} to {CLUSTER}: correct the address" in str(raised.value)
            with connect(f"{address},{leader.address}") as cluster:
                cluster.append("t", ROW)
                assert records(cluster) == 1


def test_https_where_no_tls_is_spoken(leader: ServedCoordinator) -> None:
    address = leader.address.replace("http:", "https:")
    with pytest.raises(TlsFailed, match="does not speak TLS: if a coordinator is there, its address is http://"):
        connect(address)


def test_http_where_tls_is_spoken(metadata: str, tmp_path: Path) -> None:
    with hidden_coordinator(metadata, certificate=certificate_at(tmp_path / "pem")) as leader:
        address = leader.address.replace("https:", "http:")
        with pytest.raises(SparklogError, match=f"if it speaks TLS, its address is {leader.address}") as raised:
            connect(address)
        assert raised.value.code == "COORDINATOR_NOT_AVAILABLE"


def test_a_certificate_that_nobody_vouches_for_is_not_accepted(metadata: str, tmp_path: Path) -> None:
    with (
        hidden_coordinator(metadata, certificate=certificate_at(tmp_path / "pem")) as leader,
        pytest.raises(TlsFailed, match="its certificate is not valid here"),
    ):
        connect(leader.address)


@pytest.mark.parametrize("text", ["http://", "http://a:7400,", "http://a:7400,b:7400", "http://a:x", "http://a#b"])
def test_addresses_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is like http://host:7400, several are separated by commas"):
        addresses_in(text)


def test_each_address_counts_once() -> None:
    assert addresses_in("http://a:7400/, https://b:1,http://a:7400") == ("http://a:7400", "https://b:1")


# ---- another cluster at the address -----------------------------------------------------------------------


def test_the_coordinator_of_another_cluster_is_not_taken_for_the_own_one(metadata: str) -> None:
    other = new_cluster()
    with hidden_coordinator(metadata) as leader:
        port = int(leader.address.rpartition(":")[2])
        with connect(leader.address) as cluster:
            leader.stop()
            with hidden_coordinator(other, port=port):
                with pytest.raises(InconsistentClusterId, match="connect again if the cluster was created again"):
                    cluster.topics()
                with pytest.raises(InconsistentClusterId):
                    cluster.append("t", ROW)
    with connect(other) as untouched:
        assert records(untouched) == 0


def test_one_of_another_cluster_is_passed_over(metadata: str) -> None:
    other = new_cluster()
    with (
        two_coordinators(metadata) as (first, second),
        hidden_coordinator(other) as of,
        connect(f"{first.address},{of.address},{second.address}") as cluster,
    ):
        first.stop()
        cluster.append("t", ROW)
        assert records(cluster) == 1


def test_a_shared_connection_is_opened_again_for_the_cluster_that_is_there_now(metadata: str) -> None:
    other = new_cluster()
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    try:
        with hidden_coordinator(metadata, port=port):
            first = shared(address)
            assert shared(address) is first
        with hidden_coordinator(other, port=port):
            second = shared(address)
            assert second.follower.state.chain_id != first.follower.state.chain_id
    finally:
        forget_shared()


def test_a_coordinator_that_is_silent_holds_nobody_up_for_long(
    leader: ServedCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for READ_S, which is short here for it alone: on a busy machine the other one needs longer."""
    monkeypatch.setattr(coordinators_module, "READ_S", 60.0)
    request, asked = Calls.request, []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"

        def hasty(calls: Calls, method: str, to: str, path: str, *, read_s: float, **more: Any) -> Any:
            if to == address:
                asked.append(read_s)
                read_s = 0.2
            return request(calls, method, to, path, read_s=read_s, **more)

        monkeypatch.setattr(Calls, "request", hasty)
        with connect(f"{address},{leader.address}") as cluster:
            assert cluster.topics() == ["t"]
        assert set(asked) == {60.0}
