"""A cluster of real processes and disks, in which one thing at a time is broken and mended.

The metadata and the stores a and b are on small disks of their own where the machine allows that; c is on S3, behind a
proxy. The coordinators serve with TLS and ask for tokens.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparklog.cli.main import run
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from sparklog.coordinator.access.access_file import lines_of, token_hash
from sparklog.host.dice import new_token
from tests.mounts import mount_disk
from tests.servers.certificates import Authority
from tests.servers.local_server import free_port
from tests.servers.tcp_proxy import TcpProxy
from tests.soak.processes import Running

DISK = "16m"
DISKS = ("meta", "a", "b")
ALL_RIGHTS = [f"{verb}:*" for verb in ("alter", "maintain", "read", "write")]
CONFIG = {
    "broker.session.timeout.ms": 6_000,
    "replica.lag.time.max.ms": 6_000,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "metadata.copies": 1,
    "store.free.low.bytes": 3 << 20,
    "store.free.min.bytes": 2 << 20,
}


@dataclass(frozen=True)
class Said:
    """What a command line led to."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Seen:
    """What people see at one moment: in `cluster health`, and of a coordinator, "" if none answers."""

    code: int
    health: str
    page: str
    metrics: str


@dataclass
class ChaosCluster:
    """Two coordinators, and an agent for each of the stores a, b and c. The topic orders has a replica on each."""

    folder: Path
    s3: TcpProxy
    has_disks: bool = False
    processes: dict[str, Running] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    kept: Any = None  # by the step that breaks something, for the one that mends it
    token: str = field(default_factory=new_token)
    authority: Authority = field(init=False)

    def __post_init__(self) -> None:
        self.authority = Authority(self.folder)

    @property
    def url(self) -> str:
        return str(self.folder / "meta" / "chain")

    def begin(self, c_url: str) -> None:
        """Make the cluster, and start all processes.

        The environment must lead S3 clients to the proxy, and name `token` and the file of `authority`.
        """
        for name in DISKS:
            (self.folder / name).mkdir()
        self.has_disks = all(mount_disk(self.folder / name, DISK) for name in DISKS)
        self.write_certificate(days=1)
        self.write_access(self.token)
        stores = {"a": str(self.folder / "a"), "b": str(self.folder / "b"), "c": c_url}
        init_cluster(self.url, stores=stores, config=CONFIG)
        for number in (1, 2):
            self._coordinator(number)
        for store in "abc":
            self._start(f"agent-{store}", ["agent", "--store", store])
        assert self.run("topic", "create", "orders").code == 0
        assert self.write("first").code == 0

    def end(self) -> None:
        """Whatever is left has ended after this."""
        for running in self.processes.values():
            if running.is_alive:
                running.kill()

    # ---- what people do and see -----------------------------------------------------------------

    def run(self, *arguments: str, stdin: str = "") -> Said:
        """Run a command line, in this process."""
        out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
        with _stdin(stdin), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(["--cluster", self.url, *arguments])
        return Said(code, *(each.buffer.getvalue().decode() for each in (out, err)))  # type: ignore[attr-defined]

    def write(self, value: str) -> Said:
        """Append one record."""
        return self.run("produce", "orders", stdin=f"{value}\n")

    def look(self) -> Seen:
        """Look at everything that shows failures."""
        said = self.run("cluster", "health", "--format", "json")
        document = json.loads(said.out) if said.out else {"wrong": [said.err]}
        words = "\n".join([*document["wrong"], *document.get("remarks", ())])
        page, metrics = self.of_coordinator()
        return Seen(said.code, words, page, metrics)

    def of_coordinator(self) -> tuple[str, str]:
        """The overview and the metrics of the one that leads, else of another one that answers; "" if none does."""
        found = "", ""
        for port in self.ports.values():
            with contextlib.suppress(OSError):
                found = self._asked(port, "/"), self._asked(port, "/metrics")
                if "sparklog_active_controller 1.0" in found[1]:
                    break
        return found

    def _asked(self, port: int, path: str) -> str:
        context = ssl.create_default_context(cafile=self.authority.file)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # an expired certificate keeps nobody from looking
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"https://localhost:{port}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return str(answer.read().decode())

    # ---- files ----------------------------------------------------------------------------------

    def write_certificate(self, *, days: float) -> None:
        issued = self.authority.issue("issued", days=days)
        self._replace("server.key", Path(issued.key).read_bytes())
        self._replace("server.crt", Path(issued.certificate).read_bytes())

    def write_access(self, token: str) -> None:
        self._replace("access.toml", lines_of("ops", [token_hash(token)], ALL_RIGHTS).encode())

    def _replace(self, name: str, body: bytes) -> None:
        (self.folder / f"{name}.new").write_bytes(body)
        os.replace(self.folder / f"{name}.new", self.folder / name)

    # ---- processes ------------------------------------------------------------------------------

    def named(self, kind: str) -> list[Running]:
        return [running for name, running in self.processes.items() if name.startswith(kind)]

    def start_all(self) -> None:
        """Start what does not run, wake what is paused."""
        for running in self.processes.values():
            if running.paused:
                running.wake()
            if not running.is_alive:
                running.start()

    def stop(self, name: str) -> None:
        """Stop a process cleanly."""
        self.processes[name].ask_to_stop()
        assert self.processes[name].stopped() == 0

    def leader(self) -> Running:
        """The coordinator in force."""
        with connect(self.url) as cluster:
            port = int(cluster.connection.follower.state.coordinator.address.rpartition(":")[2])
        return next(self.processes[name] for name, own in self.ports.items() if own == port)

    def _coordinator(self, number: int) -> None:
        name = f"coordinator-{number}"
        port = self.ports[name] = free_port()
        served = [f"--listen=127.0.0.1:{port}", f"--advertise=https://localhost:{port}"]
        files = {"tls-certificate": "server.crt", "tls-key": "server.key", "access": "access.toml"}
        options = [f"--{option}={self.folder / file}" for option, file in files.items()]
        self._start(name, ["coordinator", "--job-command=none", *served, *options])

    def _start(self, name: str, arguments: list[str]) -> None:
        command = [sys.executable, "-m", "sparklog", "--cluster", self.url, *arguments]
        self.processes[name] = Running(name, command, self.folder / f"{name}.out")
        self.processes[name].start()


@contextlib.contextmanager
def _stdin(text: str) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text.encode()))
    try:
        yield
    finally:
        sys.stdin = before
