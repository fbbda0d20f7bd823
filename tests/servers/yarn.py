"""A YARN of two real processes on this machine: a resource manager and one node manager, beside a file system."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.servers.hadoop import OPENED, VERSION, site
from tests.servers.maven import SHORT_LIVED_JVM, fetch_jars, java
from tests.servers.s3_servers import free_port

_MANAGERS = {
    "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}
# The resource manager does not start without classes of the time line service, which it does not name as needed.
_SERVERS = (*_MANAGERS, "timelineservice")
_ARTIFACTS = ("hadoop-common", "hadoop-hdfs-client", *(f"hadoop-yarn-server-{server}" for server in _SERVERS))
_LOGGING = """\
log4j.rootLogger=WARN,stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d %p %c: %m%n
"""
_READY_TIMEOUT_S = 180
_POLL_S = 0.2


def yarn_jars() -> list[Path]:
    """Raises CannotFetch."""
    return fetch_jars("yarn", [f"org.apache.hadoop:{artifact}:{VERSION}" for artifact in _ARTIFACTS])


class Yarn:
    """Use it as a context manager; everything lies in `folder`, and every process ends with it."""

    def __init__(self, folder: Path, file_system: str) -> None:
        """`file_system`: the URL of its default file system, where applications put their archives."""
        self._folder = folder
        self._file_system = file_system
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._resource_manager = f"127.0.0.1:{free_port()}"
        self._page = f"127.0.0.1:{free_port()}"

    @property
    def conf(self) -> Path:
        """HADOOP_CONF_DIR of its clients."""
        return self._folder / "conf"

    def __enter__(self) -> Yarn:
        """Raises CannotFetch if this machine can't get its JARs."""
        jars = yarn_jars()
        self.conf.mkdir(parents=True)
        (self.conf / "core-site.xml").write_text(site({"fs.defaultFS": self._file_system}))
        (self.conf / "yarn-site.xml").write_text(site(self._properties()))
        (self.conf / "log4j.properties").write_text(_LOGGING)
        try:
            for manager in _MANAGERS:
                self._processes[manager] = self._run(manager, jars)
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process, the node manager first: it ends the containers. Legal at any time."""
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def outputs(self, names: str = "std*") -> str:
        """The ends of what the containers printed, the newest last."""
        files = sorted((self._folder / "logs").rglob(names), key=lambda file: file.stat().st_mtime)
        return "\n".join(f"{file}\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def _run(self, manager: str, jars: list[Path]) -> subprocess.Popen[bytes]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("HADOOP_", "YARN_", "SPARK_"))
        }
        java_home = Path(java()).resolve().parents[1]
        with (self._folder / f"{manager}.log").open("wb") as log:
            return subprocess.Popen(
                [
                    *(java(), "-Xmx256m", "-Djava.net.preferIPv4Stack=true", *SHORT_LIVED_JVM),
                    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
                    *("-cp", ":".join(map(str, [*jars, self.conf])), _MANAGERS[manager]),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=kept | {"JAVA_HOME": str(java_home)},
            )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not self._is_ready():
            for manager, process in self._processes.items():
                log = (self._folder / f"{manager}.log").read_text(errors="replace")[-3000:]
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{manager} is not ready, exit code {process.poll()}: {log}")
            time.sleep(_POLL_S)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self._page}/ws/v1/cluster/metrics", timeout=5) as answer:
                nodes: int = json.load(answer)["clusterMetrics"]["activeNodes"]
        except OSError:
            return False
        return nodes == 1

    def _properties(self) -> Mapping[str, str]:
        listening = {
            name: f"127.0.0.1:{free_port()}"
            for name in (
                "yarn.resourcemanager.scheduler.address",
                "yarn.resourcemanager.resource-tracker.address",
                "yarn.resourcemanager.admin.address",
                "yarn.nodemanager.address",
                "yarn.nodemanager.localizer.address",
                "yarn.nodemanager.webapp.address",
                "yarn.nodemanager.collector-service.address",
            )
        }
        return listening | {
            "hadoop.tmp.dir": f"{self._folder}/tmp",
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.resourcemanager.address": self._resource_manager,
            "yarn.resourcemanager.webapp.address": self._page,
            "yarn.resourcemanager.scheduler.class": "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo."
            "FifoScheduler",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.resource.memory-mb": "6144",
            "yarn.nodemanager.resource.cpu-vcores": "8",
            "yarn.nodemanager.local-dirs": f"{self._folder}/local",
            "yarn.nodemanager.log-dirs": f"{self._folder}/logs",
            "yarn.nodemanager.delete.debug-delay-sec": "600",  # outputs are read after the end of an application
            "yarn.nodemanager.disk-health-checker.enable": "false",  # a full disk of the machine is not its business
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.vmem-check-enabled": "false",
        }
