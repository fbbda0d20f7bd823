"""A small HDFS of real processes on this machine: one name node and two data nodes, each killed and restarted alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from xml.sax.saxutils import escape

from tests.servers.class_archives import new_archive, short_lived
from tests.servers.local_server import free_port
from tests.servers.maven import fetch_jars, java
from tests.servers.paused import pause

NAME_NODE = "namenode"
DATA_NODES = ("datanode-0", "datanode-1")
_DATA_NODE = "datanode"

VERSION = "3.5.0"
_COORDINATES = [
    f"org.apache.hadoop:{artifact}:{VERSION}" for artifact in ("hadoop-common", "hadoop-hdfs", "hadoop-hdfs-client")
]
_NAME_NODE_CLASS = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE_CLASS = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_ADMIN_CLASS = "org.apache.hadoop.hdfs.tools.DFSAdmin"
OPENED = ["java.base/java.lang", "java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.util"]
_SMALL = ["-Xmx160m", "-Djava.net.preferIPv4Stack=true"]
_READY_TIMEOUT_S = 120
_POLL_S = 0.1
# What /jmx tells of a service is at most this old, instead of ten seconds. A timer ticks as often in every node: if it
# did so each millisecond, an idle node would take three times the processor time.
METRICS_MS = 50


def hadoop_jars() -> list[Path]:
    """Raises CannotFetch."""
    return fetch_jars("hadoop", _COORDINATES)


def write_hadoop_archives() -> None:
    """Write the class archives of both kinds of nodes if there are none. Raises CannotFetch."""
    jars = hadoop_jars()
    with (
        new_archive(NAME_NODE, jars) as of_name_node,
        new_archive(_DATA_NODE, jars) as of_data_node,
        tempfile.TemporaryDirectory(prefix="sparklog-classes-") as work,
    ):
        writing = {NAME_NODE: of_name_node, DATA_NODES[0]: of_data_node}
        if any(writing.values()):
            with Hadoop(Path(work), {node: options for node, options in writing.items() if options}) as hadoop:
                hadoop.end()


class Hadoop:
    """`start` it, or use it as a context manager; everything lies in `folder`, and every process ends with it.

    Replication is 2, a file closes before its last block is reported (as sparklog asks of users), and a data
    node counts as dead after 11 silent seconds instead of ten minutes.
    """

    def __init__(self, folder: Path, jvm_options: Mapping[str, Sequence[str]] | None = None) -> None:
        """`jvm_options`: of some nodes, in place of those that start it fast."""
        self._folder = folder
        self._jvm_options = jvm_options or {}
        self._jars: list[Path] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        ports: set[int] = set()
        while len(ports) < 4:
            ports.add(free_port())
        self._rpc_port, *http_ports = ports
        self._http_ports = dict(zip((NAME_NODE, *DATA_NODES), http_ports, strict=True))

    @property
    def url(self) -> str:
        """The root of the file system, without a slash at the end."""
        return f"hdfs://127.0.0.1:{self._rpc_port}"

    def start(self) -> None:
        """Format the file system and start all nodes. Raises CannotFetch if this machine can't get Hadoop."""
        self._jars = hadoop_jars()
        for empty in ("hdfs", "datanode", "static"):
            (self._folder / "classes" / "webapps" / empty).mkdir(parents=True)
        for node in (NAME_NODE, *DATA_NODES):
            (self._folder / node).mkdir()
            (self._folder / node / "hdfs-site.xml").write_text(site(self._properties(node)))
            metrics = self._folder / node / "hadoop-metrics2.properties"
            metrics.write_text(f"*.periodMillis={METRICS_MS}\n")
        if self._run(NAME_NODE, "-format", "-nonInteractive").wait(_READY_TIMEOUT_S) != 0:
            raise RuntimeError(f"the name node can't be formatted: {self._end_of_log(NAME_NODE)}")
        for node in (NAME_NODE, *DATA_NODES):
            self._processes[node] = self._run(node)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return when the name node is out of safe mode, and it and the data nodes that run know each other.

        A data node that was killed counts until it is missed, so each is asked as well.
        """
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not self._is_ready():
            for node, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{node} ended with {process.returncode}: {self._end_of_log(node)}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"HDFS is not ready after {_READY_TIMEOUT_S} s: {self._end_of_log(NAME_NODE)}")
            time.sleep(_POLL_S)

    def kill(self, node: str) -> None:
        """End a node as a power cut would (SIGKILL)."""
        process = self._processes.pop(node)
        process.kill()
        process.wait()

    def restart(self, node: str) -> None:
        """Start a node that was killed, on the same data and the same ports, and wait until it takes part."""
        self._processes[node] = self._run(node)
        self.wait_until_ready()

    def pause(self, node: str) -> None:
        """Let a node hang: its connections stay open, and nothing answers."""
        pause(self._processes[node])

    def resume(self, node: str) -> None:
        """Let a paused node go on."""
        self._processes[node].send_signal(signal.SIGCONT)

    def admin(self, *arguments: str) -> None:
        """Run `hdfs dfsadmin`, for example with "-safemode", "enter"."""
        command = [java(), *_SMALL, *self._start_fast(NAME_NODE), "-cp", self._class_path(NAME_NODE), _ADMIN_CLASS]
        subprocess.run([*command, *arguments], check=True, capture_output=True, timeout=_READY_TIMEOUT_S)

    def metric(self, node: str, bean: str, name: str) -> object:
        """One figure that a node tells of itself, for example `NumLiveDataNodes` of `name=FSNamesystemState`."""
        query = f"http://127.0.0.1:{self._http_ports[node]}/jmx?qry=Hadoop:{bean},*"
        with urllib.request.urlopen(query, timeout=5) as answer:
            beans = json.load(answer)["beans"]
        return next((each[name] for each in beans if name in each), None)

    def mend(self) -> None:
        """Let every node run again, whatever a test did to them."""
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
        for node in (NAME_NODE, *DATA_NODES):
            if node not in self._processes:
                self._processes[node] = self._run(node)
        self.wait_until_ready()

    def end(self) -> None:
        """Let every process end in its own time, which is a longer one."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(_READY_TIMEOUT_S)
        self._processes.clear()

    def stop(self) -> None:
        """End every process. Legal at any time."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def __enter__(self) -> Hadoop:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _run(self, node: str, *arguments: str) -> subprocess.Popen[bytes]:
        folder = self._folder / node
        main_class = _NAME_NODE_CLASS if node == NAME_NODE else _DATA_NODE_CLASS
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [
                    java(),
                    *_SMALL,
                    *((not arguments and self._jvm_options.get(node)) or self._start_fast(node)),
                    *opened,
                    f"-Djava.io.tmpdir={folder}",  # Jetty leaves its own files there
                    "-cp",
                    self._class_path(node),
                    main_class,
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={name: value for name, value in os.environ.items() if not name.startswith(("HADOOP_", "HDFS_"))},
            )

    def _start_fast(self, node: str) -> list[str]:
        return short_lived(NAME_NODE if node == NAME_NODE else _DATA_NODE, self._jars)

    def _class_path(self, node: str) -> str:
        """Folders come last: a JVM that has them before its JARs takes no archive of classes."""
        return ":".join(map(str, [*self._jars, self._folder / node, self._folder / "classes"]))

    def _is_ready(self) -> bool:
        running = [node for node in DATA_NODES if node in self._processes]
        try:
            live = self.metric(NAME_NODE, "name=FSNamesystemState", "NumLiveDataNodes")
            state = self.metric(NAME_NODE, "name=FSNamesystemState", "FSState")
            actors = [str(self.metric(node, "name=DataNodeInfo", "BPServiceActorInfo")) for node in running]
        except OSError:
            return False  # one does not listen yet
        registered = all('"ActorState":"RUNNING"' in actor for actor in actors)
        return state == "Operational" and live == len(running) and registered

    def _end_of_log(self, node: str) -> str:
        return (self._folder / node / "log").read_text(errors="replace")[-2000:]

    def _properties(self, node: str) -> dict[str, str]:
        http = f"127.0.0.1:{self._http_ports[node]}"
        folder = self._folder / node
        everywhere = {
            "fs.defaultFS": self.url,
            "hadoop.tmp.dir": f"{folder}/tmp",
            "dfs.replication": "2",
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.heartbeat.recheck-interval": "500",
        }
        if node == NAME_NODE:
            return everywhere | {
                "dfs.namenode.http-address": http,
                "dfs.namenode.name.dir": f"file://{folder}/names",
                "dfs.namenode.file.close.num-committed-allowed": "1",
                "dfs.namenode.safemode.extension": "0",
                "dfs.namenode.safemode.min.datanodes": "1",
                "dfs.namenode.handler.count": "8",
            }
        return everywhere | {
            "dfs.datanode.data.dir": f"file://{folder}/blocks",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.datanode.http.address": http,
            "dfs.datanode.hostname": "127.0.0.1",
        }


def site(properties: Mapping[str, str]) -> str:
    """A file of settings, as Hadoop's programs read it."""
    each = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in properties.items()
    )
    return "\n".join(["<configuration>", *each, "</configuration>"])
