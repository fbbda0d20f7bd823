"""A cluster on S3 whose roles are processes of their own, each with its own way to the stores, which is recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sparklog.host.deadline import Deadline, tries
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store
from tests.servers.fault_proxy import FaultProxy
from tests.servers.fault_proxy_rules import Answer, Request
from tests.servers.local_server import free_port
from tests.servers.s3_servers import S3Server

PROJECT = Path(__file__).parents[3]
SMALL_NUMBERS = Path(__file__).parent / "small_numbers"
ROLES = ("producer", "consumer", "maintenance", "coordinator", "agent", "operator")
PREFIX = "log"
PATIENCE_S = 900


class RunFailed(AssertionError):
    """A command of a role ended with another exit code than wanted."""


@dataclass
class Roles:
    """The stores, one bucket each, and a recording proxy for each role."""

    server: S3Server
    folder: Path
    buckets: Mapping[str, str]  # by store id
    proxies: Mapping[str, FaultProxy]
    coordinators: str = ""  # their addresses, once they serve
    metadata: str = "a"
    phase: str = "embedded"
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: dict[int, Path] = field(default_factory=dict)  # by process id
    started: int = 0

    def url(self, store: str) -> str:
        return f"s3://{self.buckets[store]}/{PREFIX}"

    def requests(self, role: str) -> tuple[Request, ...]:
        return self.proxies[role].requests

    def store(self, store: str) -> ObjectStore:
        """A way to a store that nobody records, for what goes wrong there."""
        return open_store(self.url(store), self.server.settings)

    # ---- processes ------------------------------------------------------------------------------

    def environment(self, role: str, cluster: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SPARKLOG_"))}
        return {
            **inherited,
            **self.server.variables,
            "AWS_ENDPOINT_URL": self.proxies[role].url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "SPARKLOG_CLUSTER": cluster,
            "SPARKLOG_JOB_COMMAND": "none",
            "SPARKLOG_ZONE": "z2",  # that of store b, which is asked first
            "PYTHONPATH": f"{SMALL_NUMBERS}{os.pathsep}{PROJECT}",
            "PYSPARK_PYTHON": sys.executable,
        }

    def run(
        self, role: str, *arguments: str, at_metadata: bool = False, given: str = "", codes: tuple[int, ...] = (0,)
    ) -> str:
        """Run a command line to its end. Returns what it printed. `at_metadata`: not through the coordinators."""
        return self.python(role, "-m", "sparklog", *arguments, at_metadata=at_metadata, given=given, codes=codes)

    def python(
        self, role: str, *arguments: str, at_metadata: bool = False, given: str = "", codes: tuple[int, ...] = (0,)
    ) -> str:
        cluster = self.url(self.metadata) if at_metadata else self.coordinators
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment(role, cluster),
            cwd=self.folder,
            input=given.encode(),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        said = (done.stdout + done.stderr).decode(errors="replace")
        if done.returncode not in codes:
            raise RunFailed(f"{role}: {' '.join(arguments)} ended with {done.returncode}:\n{said[-3000:]}")
        return said

    def start(self, role: str, *arguments: str, at_metadata: bool = False) -> subprocess.Popen[bytes]:
        """Start a service. What it says is in a file of the folder."""
        cluster = self.url(self.metadata) if at_metadata else self.coordinators
        self.started += 1
        file = self.folder / f"{role}-{self.started}.log"
        with file.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "sparklog", *arguments],
                env=self.environment(role, cluster),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.running.append(process)
        self.logs[process.pid] = file
        return process

    def start_coordinators(self, count: int) -> None:
        """Start them, and wait until one leads and the others stand by."""
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        started = [self.start("coordinator", "coordinator", "--listen", each, at_metadata=True) for each in addresses]
        self.coordinators = ",".join(f"http://{each}" for each in addresses)
        for process in started:
            wait(lambda: any(word in self.said(process) for word in ("leads", "stands-by")))  # noqa: B023
        wait(lambda: any("leads" in self.said(process) for process in started))

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """What a service has said so far. Raises RunFailed if it has ended."""
        text = self.logs[process.pid].read_text(errors="replace")
        if process.poll() is not None:
            raise RunFailed(f"a service ended with {process.returncode}:\n{text[-3000:]}")
        return text

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """SIGTERM, and wait for its end."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        self.running.remove(process)

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


def wait(until: Callable[[], bool]) -> None:
    """Ask again until it is so. Raises RunFailed if that takes too long."""
    for _ in tries(Deadline(PATIENCE_S * 1_000)):
        if until():
            return
    raise RunFailed(f"it did not come in {PATIENCE_S} s")


@contextmanager
def roles_on(server: S3Server, folder: Path) -> Iterator[Roles]:
    """Three empty stores, a, b and c, and the roles; their processes end with the block.

    No recorded request deletes several objects: a server that can't do that gets one request for each, and IAM asks for
    the same right in both cases. So the record has all keys.
    """
    with ExitStack() as ended:
        proxies = {role: ended.enter_context(FaultProxy(server.endpoint_url)) for role in ROLES}
        for proxy in proxies.values():
            proxy.plan(Answer(501), lambda request: request.kind == "DELETE_MANY", times=None)
        roles = Roles(server, folder, {store: server.new_bucket() for store in "abc"}, proxies)
        ended.callback(roles.end)
        yield roles
