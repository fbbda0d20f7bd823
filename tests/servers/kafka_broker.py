"""A real Apache Kafka of one broker (KRaft: it is its own controller), a process of its own on 127.0.0.1."""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from tests.servers.local_server import free_port
from tests.servers.maven import fetch_jars, java

VERSION = "4.3.1"
_COORDINATES = [
    f"org.apache.kafka:kafka_2.13:{VERSION}",
    f"org.apache.kafka:kafka-tools:{VERSION}",
    "org.slf4j:slf4j-simple:1.7.36",  # what is wrong goes to stderr, and so into our file
]
_JVM = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]  # as Kafka's own script
_READY_TIMEOUT_S = 60
_POLL_S = 0.05
_STOP_TIMEOUT_S = 20


def kafka_jars() -> list[Path]:
    """The broker with all that it needs. Raises CannotFetch."""
    return fetch_jars("kafka", _COORDINATES)


class KafkaBroker:
    """`start` it, or use it as a context manager: its files lie in `folder`, and its process ends with the block.

    Its settings are the defaults, but for `partitions` of a topic that a first write makes, and `settings`.
    """

    def __init__(self, folder: Path, partitions: int = 1, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._folder = folder
        self._partitions = partitions
        self._settings = settings
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """`kafka.bootstrap.servers` of clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Its process. Legal while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Format its folder and start it. Raises CannotFetch if this machine can't get Kafka."""
        class_path = ":".join(map(str, kafka_jars()))
        self._port = free_port()
        settings = self._folder / "server.properties"
        settings.write_text(self._properties(controller_port=free_port()))
        random = b"\0" + uuid.uuid4().bytes[1:]  # an id that began with "-" would be taken for an option
        cluster_id = base64.urlsafe_b64encode(random).rstrip(b"=").decode()
        format_command = ["kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", str(settings)]
        if self._run(class_path, *format_command).wait(_READY_TIMEOUT_S) != 0:
            raise RuntimeError(f"Kafka's folder can't be formatted: {self._end_of_log()}")
        self.start_again()

    def start_again(self) -> None:
        """Start it on its folder and its port, as after a crash. It was started before, and does not run."""
        self._run(":".join(map(str, kafka_jars())), "kafka.Kafka", str(self._folder / "server.properties"))
        self._wait_until_ready()

    def kill(self) -> None:
        """Kill its process, as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End its process. Legal at any time."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:  # also when Ctrl-C comes a second time
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> KafkaBroker:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _run(self, class_path: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [java(), *_JVM, f"-Djava.io.tmpdir={self._folder}", "-cp", class_path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for us: we end it
            )
        return self._process

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not self._is_listening():
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"Kafka ended with {self._process.returncode}: {self._end_of_log()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"Kafka is not ready after {_READY_TIMEOUT_S} s: {self._end_of_log()}")
            time.sleep(_POLL_S)

    def _is_listening(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return True
        except OSError:
            return False

    def _properties(self, controller_port: int) -> str:
        return "\n".join(
            [
                "process.roles=broker,controller",
                "node.id=1",
                f"listeners=PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}",
                "controller.listener.names=CONTROLLER",
                f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}",
                f"log.dirs={self._folder}/logs",
                f"num.partitions={self._partitions}",
                "offsets.topic.replication.factor=1",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "group.initial.rebalance.delay.ms=0",
                *(f"{key}={value}" for key, value in self._settings.items()),
                "",
            ]
        )

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _end_of_log(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]
