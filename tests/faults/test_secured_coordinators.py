"""A coordinator with TLS, tokens and rights as a real process: bad input, renewals under load, no secret anywhere."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
import urllib3

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.coordinator.access.access_file import lines_of, token_hash
from sparklog.core.errors import AuthenticationFailed, SparklogError, TlsFailed, TopicAuthorizationFailed, TryAgain
from sparklog.host.dice import new_token
from sparklog.storage.open_store import open_store
from sparklog.wire.messages import CLUSTER, JSON, SUBMIT
from tests.faults.running_coordinators import RunningCoordinator, running_coordinators
from tests.secret_search import leaks
from tests.servers.certificates import Authority
from tests.servers.local_server import free_port

OPEN_FILES = 1_024  # of a coordinator, as on most machines
ALL = [f"{verb}:*" for verb in ("alter", "maintain", "read", "write")]


@dataclass
class Secured:
    """A coordinator at every address of this machine, with the files that it serves with."""

    folder: Path
    url: str
    ca: Authority
    coordinator: RunningCoordinator = field(init=False)
    tokens: dict[str, str] = field(default_factory=lambda: {name: new_token() for name in ("ops", "anna", "next")})

    @property
    def port(self) -> str:
        return self.coordinator.address.rpartition(":")[2]

    def write_access(self, *anna: str) -> None:
        """Replace the access file; `anna` has these tokens."""
        text = lines_of("ops", [token_hash(self.tokens["ops"])], ALL)
        text += lines_of("anna", [token_hash(self.tokens[name]) for name in anna], ["write:orders", "describe:*"])
        self.replace("access.toml", text.encode())

    def write_certificate(self, **how: float | tuple[str, ...]) -> None:
        issued = self.ca.issue("issued", **how)  # type: ignore[arg-type]
        self.replace("server.key", Path(issued.key).read_bytes())
        self.replace("server.crt", Path(issued.certificate).read_bytes())

    def replace(self, name: str, body: bytes) -> None:
        """Put a new version of a file in its place at once."""
        (self.folder / f"{name}.new").write_bytes(body)
        os.replace(self.folder / f"{name}.new", self.folder / name)

    def renewed(self, what: str) -> None:
        """Wait until the coordinator has taken a new version of this."""
        while not self.coordinator.wait_for("renewed").startswith(what):
            pass

    def connect(self, who: str = "ops", host: str = "localhost") -> Cluster:
        return connect(f"https://{host}:{self.port}", token=self.tokens[who], ca=self.ca.file)

    def ask(self, method: str, path: str, token: str, body: object = None) -> urllib3.BaseHTTPResponse:
        """A request of another program, in JSON."""
        headers = {"authorization": f"Bearer {token}", "accept": JSON, "content-type": JSON}
        with urllib3.PoolManager(ca_certs=self.ca.file, retries=False) as pool:
            url = f"https://localhost:{self.port}{path}"
            return pool.request(method, url, headers=headers, body=None if body is None else msgspec.json.encode(body))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Topics `orders` and `others`. A test that changes its files puts good ones back."""
    folder = tmp_path_factory.mktemp("secured")
    running = Secured(folder, f"file://{folder}/cluster", Authority(folder))
    init_cluster(running.url)
    with connect(running.url) as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("others")
    running.write_access("anna")
    running.write_certificate()
    files = {name: str(folder / file) for name, file in FILES.items()}
    options = [part for name, file in files.items() for part in (f"--{name}", file)]
    with running_coordinators(running.url) as coordinators:
        port = free_port()
        running.coordinator = coordinators.start(
            *("--listen", f"0.0.0.0:{port}", "--advertise", f"https://localhost:{port}", *options),
            open_files=OPEN_FILES,
        )
        running.coordinator.wait_for("leads")
        yield running


FILES = {"tls-certificate": "server.crt", "tls-key": "server.key", "access": "access.toml", "audit": "audit.jsonl"}


def write(cluster: Cluster, topic: str, value: str = "x") -> None:
    cluster.append(topic, pa.table({"value": [value]}))


def records(secured: Secured, topic: str) -> int:
    with connect(secured.url) as cluster:
        return cluster.read(topic, partition=0).num_rows


# ---- rights ---------------------------------------------------------------------------------------------


# M: N-05
def test_a_principal_writes_where_it_may_and_nowhere_else(secured: Secured) -> None:
    before = records(secured, "orders"), records(secured, "others")
    with secured.connect("anna") as cluster:
        write(cluster, "orders")
        with pytest.raises(TopicAuthorizationFailed, match="anna has no right to write topic 'others'"):
            write(cluster, "others")
        with pytest.raises(TopicAuthorizationFailed, match="anna has no right to alter topic 'orders'"):
            cluster.delete_topic("orders")
        with pytest.raises(TopicAuthorizationFailed, match="anna has no right to alter topic 'orders'"):
            cluster.create_topic("orders")
    assert (records(secured, "orders"), records(secured, "others")) == (before[0] + 1, before[1])
    lines = [json.loads(line) for line in (secured.folder / FILES["audit"]).read_text().splitlines()]
    of_anna = [line for line in lines if line["principal"] == "anna"][-4:]
    assert [(line["kind"], line["topics"], line.get("error")) for line in of_anna] == [
        ("append", ["orders"], None),
        ("append", ["others"], "TOPIC_AUTHORIZATION_FAILED"),
        ("delete-topic", ["orders"], "TOPIC_AUTHORIZATION_FAILED"),
        ("create-topic", ["orders"], "TOPIC_AUTHORIZATION_FAILED"),
    ]
    assert {line["address"] for line in of_anna} == {"127.0.0.1"}


# ---- bad input ------------------------------------------------------------------------------------------

ADVICE: dict[str, tuple[type[SparklogError], str, Callable[[Secured], Cluster]]] = {
    "no token": (
        AuthenticationFailed,
        "wanted a token in the header Authorization, found none: set SPARKLOG_TOKEN",
        lambda to: connect(f"https://localhost:{to.port}", ca=to.ca.file),
    ),
    "a wrong token": (
        AuthenticationFailed,
        "the token is not one of this coordinator's: set SPARKLOG_TOKEN to one that is in its access file",
        lambda to: connect(f"https://localhost:{to.port}", token=new_token(), ca=to.ca.file),
    ),
    "a CA that is not trusted": (
        TlsFailed,
        "its certificate is not valid here: .*; set SPARKLOG_CA (cluster.ca) to the certificate of its CA",
        lambda to: connect(f"https://localhost:{to.port}", token=to.tokens["ops"]),
    ),
    "another CA": (
        TlsFailed,
        "its certificate is not valid here: .*; set SPARKLOG_CA (cluster.ca) to the certificate of its CA",
        lambda to: connect(
            f"https://localhost:{to.port}", token=to.tokens["ops"], ca=Authority(to.folder, "another").file
        ),
    ),
    "another host": (
        TlsFailed,
        "IP address mismatch, certificate is not valid for '127.0.0.2'; use a host name that is in it",
        lambda to: to.connect(host="127.0.0.2"),
    ),
    "http to https": (
        TryAgain,
        "http://localhost:.* did not answer: .*; if it speaks TLS, its address is https://localhost:",
        lambda to: connect(f"http://localhost:{to.port}", token=to.tokens["ops"]),
    ),
    "nothing behind it": (
        TryAgain,
        "no coordinator answers at https://localhost:1: .*Connection refused",
        lambda to: connect("https://localhost:1", token=to.tokens["ops"], ca=to.ca.file),
    ),
}


# M: N-05
@pytest.mark.parametrize("what", ADVICE)
def test_what_is_wrong_is_named_with_what_to_do(secured: Secured, what: str) -> None:
    kind, text, connect_wrongly = ADVICE[what]
    with pytest.raises(kind, match=text.replace("(", r"\(").replace(")", r"\)")) as raised:
        connect_wrongly(secured)
    assert raised.value.landed == "no"


def test_a_client_of_another_cluster_is_refused(secured: Secured) -> None:
    known = msgspec.json.decode(secured.ask("GET", CLUSTER, secured.tokens["ops"]).data)
    command = {"type": "create-topic", "name": "stray"}
    sent = {"submission": {"command_id": "a" * 32, "n0": known["position"], "command": command}, "timeout_ms": 1_000}
    wanted = {"chain_id": "e" * 32, "seen": 0, "commands": [sent]}
    answer = secured.ask("POST", SUBMIT, secured.tokens["ops"], wanted)
    assert (answer.status, msgspec.json.decode(answer.data)["code"]) == (409, "INCONSISTENT_CLUSTER_ID")


# ---- connections that say nothing -----------------------------------------------------------------------


# M: N-04
def test_hundreds_of_connections_without_a_handshake_do_not_stop_a_commit(secured: Secured) -> None:
    before = records(secured, "others")
    with ExitStack() as open_ones:
        for number in range(OPEN_FILES):
            silent = open_ones.enter_context(socket.create_connection(("127.0.0.1", int(secured.port))))
            if number % 2:
                silent.sendall(b"\x16\x03\x01\x02\x00")  # the beginning of a handshake
        for _ in range(3):
            with secured.connect() as cluster:
                write(cluster, "others")
    assert records(secured, "others") == before + 3


# ---- renewals -------------------------------------------------------------------------------------------


def test_an_expired_certificate_is_named_and_a_renewed_one_is_taken_without_a_restart(secured: Secured) -> None:
    with secured.connect() as cluster:
        secured.write_certificate(days=-1)
        secured.renewed("the TLS certificate")
        with pytest.raises(TlsFailed, match="certificate has expired; renew it there, which needs no restart"):
            secured.connect()
        write(cluster, "others")  # over the connection that it has
        secured.write_certificate()
        secured.renewed("the TLS certificate")
        with secured.connect() as again:
            write(again, "others")


# M: N-05
def test_a_token_is_replaced_under_load_and_no_request_fails(secured: Secured) -> None:
    """Writers change to the new token between the two replacements of the file; the old one is of no use then."""
    which = ["anna"]
    stop = threading.Event()
    written = [0, 0]
    failed: list[Exception] = []

    def work(number: int) -> None:
        try:
            while not stop.is_set():
                with secured.connect(which[-1]) as cluster:
                    for _ in range(3):
                        write(cluster, "orders", f"load-{number}")
                        written[number] += 1
        except Exception as error:
            failed.append(error)

    before = records(secured, "orders")
    writers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        secured.write_access("anna", "next")
        secured.renewed("the access file")
        which.append("next")
        marks = [count + 6 for count in written]  # by then each has begun a connection with the new one
        while not failed and any(count < mark for count, mark in zip(written, marks, strict=True)):
            stop.wait(0.01)
        secured.write_access("next")
        secured.renewed("the access file")
        secured.replace("access.toml", b"[principal")
        assert "the version before stays in force" in secured.coordinator.wait_for("error")
    finally:
        stop.set()
        for writer in writers:
            writer.join(120)
    assert failed == []
    assert records(secured, "orders") == before + sum(written)
    with pytest.raises(AuthenticationFailed):
        secured.connect("anna")
    secured.write_access("anna")
    secured.renewed("the access file")


# ---- the jobs of a coordinator --------------------------------------------------------------------------


# M: N-05
def test_the_jobs_of_a_secured_coordinator_have_a_token_of_their_own(secured: Secured, tmp_path: Path) -> None:
    """Its certificate is not a CA's, and neither it nor its jobs get a token or a CA from the test."""
    url = f"file://{tmp_path}/cluster"
    init_cluster(url, config={"log.retention.check.interval.ms": 500, "vacuum.interval.ms": 500})
    with connect(url) as cluster:
        cluster.create_topic("rolled", config={"segment.ms": 1})
        cluster.create_topic("forgotten", config={"retention.ms": 1, "file.delete.delay.ms": 0})
        write(cluster, "rolled")
        write(cluster, "forgotten")
    files = {**{name: str(secured.folder / file) for name, file in FILES.items()}, "audit": str(tmp_path / "audit")}
    options = [part for name, file in files.items() for part in (f"--{name}", file)]
    seen: list[tuple[str, bytes]] = []
    with running_coordinators(url) as coordinators:
        port = free_port()
        where = ("--listen", f"0.0.0.0:{port}", "--advertise", f"https://localhost:{port}")
        coordinator = coordinators.start(*where, *options)
        coordinator.wait_for("leads")
        with connect(url) as cluster:
            follower = cluster.connection.follower
            while not {"roll", "compaction", "retention", "vacuum"} <= set(follower.newest_state().jobs):
                seen += _processes_of(coordinator.process.pid)
                time.sleep(0.05)
            jobs = follower.state.jobs
            assert {name: run.failed_partitions for name, run in jobs.items()} == dict.fromkeys(jobs, 0)
        coordinator.send(signal.SIGTERM)
        assert coordinator.process.wait(60) == 0
        assert coordinator.process.stdout is not None
        said = coordinator.process.stdout.read()
    assert '"event":"error"' not in said.replace(" ", "")
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert {(line["principal"], line.get("error")) for line in lines} == {("sparklog-jobs", None)}
    assert {line["kind"] for line in lines} >= {"report-job", "swap", "move-log-start"}
    store = open_store(url)
    seen += [(each.key, bytes(store.get(each.key))) for each in store.list_keys("")]
    seen += [("audit", (tmp_path / "audit").read_bytes()), ("said", said.encode())]
    assert {where for where, body in seen if _TOKEN.search(body)} == set()
    assert any("job_child" in where for where, _ in seen)


_TOKEN = re.compile(rb"sparklog_[A-Za-z0-9_-]{43}")


def _processes_of(parent: int) -> list[tuple[str, bytes]]:
    """What others of this user can see of a coordinator and its children: arguments and environment."""
    texts = []
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for process in [parent, *children]:
        with suppress(OSError):  # it has just ended
            arguments = Path(f"/proc/{process}/cmdline").read_bytes()
            texts.append((arguments.decode().replace("\0", " "), arguments))
            texts.append((f"environment of {process}", Path(f"/proc/{process}/environ").read_bytes()))
    return texts


# ---- secrets --------------------------------------------------------------------------------------------


# M: N-05
def test_no_token_and_no_hash_is_anywhere_but_in_the_access_file(secured: Secured) -> None:
    wrong = new_token()
    assert secured.ask("GET", CLUSTER, wrong).status == 401
    with secured.connect("ops") as cluster:
        write(cluster, "others")
    secrets = {**secured.tokens, "wrong": wrong}
    hashes = {f"hash of {name}": token_hash(secret) for name, secret in secrets.items()}
    process = Path("/proc") / str(secured.coordinator.process.pid)
    store = open_store(secured.url)
    texts: list[tuple[str, str | bytes]] = [
        *((each.key, bytes(store.get(each.key))) for each in store.list_keys("")),
        ("what it said", json.dumps(secured.coordinator.seen)),
        ("audit", (secured.folder / FILES["audit"]).read_bytes()),
        ("command line", (process / "cmdline").read_bytes()),
        ("environment", (process / "environ").read_bytes()),
    ]
    assert leaks(texts, {**secrets, **hashes}) == set()
    assert leaks([("access", (secured.folder / FILES["access"]).read_bytes())], secrets) == set()
