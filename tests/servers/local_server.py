"""A server for tests: a process of its own on a free port of 127.0.0.1, gone with the `with`."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import TypeVar

ATTEMPTS = 3  # somebody else may take the free port before the server does
_START_TIMEOUT_S = 60


@dataclass
class LocalServer:
    """A running server that speaks HTTP: its address, and its process, which may be killed and started again."""

    endpoint_url: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """SIGKILL, at once."""
        _end(self.process, signal.SIGKILL)

    def restart(self) -> None:
        """Start it again, on its old port, after `kill`."""
        self.process = _spawn(self.command, self.environment, self.log)
        if not _answers(self):
            raise RuntimeError(f"{self.command[0]} did not come back:\n{self.log.read_text()[-2000:]}")


Server = TypeVar("Server", bound=LocalServer)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has now. It is below those that the system gives to whoever asks for any."""
    while True:
        port = SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def running(
    kind: type[Server], command: Sequence[str], environment: Mapping[str, str], port: int, log: Path
) -> Iterator[Server | None]:
    """The server, or None if its process ended at once (as when somebody else has the port)."""
    url = f"http://127.0.0.1:{port}"
    server = kind(url, command, environment, log, _spawn(command, environment, log))
    try:
        if _answers(server):
            yield server
        elif server.process.poll() is None:
            raise RuntimeError(f"{command[0]} does not answer:\n{log.read_text()[-2000:]}")
        else:
            yield None
    finally:
        _end(server.process, signal.SIGTERM)


def _spawn(command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def _answers(server: LocalServer) -> bool:
    """Whether it speaks HTTP before its process ends or the time is over."""
    over = threading.Event()
    timer = threading.Timer(_START_TIMEOUT_S, over.set)
    timer.daemon = True
    timer.start()
    try:
        while not over.wait(0.05) and server.process.poll() is None:
            try:
                with urllib.request.urlopen(server.endpoint_url, timeout=5):
                    return True
            except urllib.error.HTTPError as answer:
                answer.close()
                return True
            except OSError:
                continue
    finally:
        timer.cancel()
        timer.join()
    return False


def _end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    if process.poll() is None:
        process.send_signal(how)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
