"""The processes of a soak: started, killed, paused, and started again under the same name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.local_server import free_port
from tests.servers.paused import pause
from tests.servers.tcp_proxy import Mode, TcpProxy

STOPPING_S = 60
_LAST_BYTES = 6_000


@dataclass
class Running:
    """A process that has a name. `said` is where its output goes."""

    name: str
    command: Sequence[str]
    said: Path
    process: subprocess.Popen[bytes] | None = None
    paused: bool = False
    starts: int = 0
    _size_at_start: int = 0  # of `said`

    def start(self) -> None:
        """Start it, or start it again."""
        assert self.process is None or self.process.poll() is not None
        with self.said.open("ab") as output:
            self._size_at_start = output.tell()
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONFAULTHANDLER": "1"},
            )
        self.paused = False
        self.starts += 1

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def has_spoken(self) -> bool:
        """True once it has said something since its start: a server handles SIGTERM by then, and not before."""
        return self.said.stat().st_size > self._size_at_start

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        assert self.process is not None
        pause(self.process)
        self.paused = True

    def wake(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def ask_to_stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def last_words(self) -> str:
        """The end of its output, and, if it was alive, what each of its threads was at. It is not alive after that."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(STOPPING_S)
        return self.said.read_bytes()[-_LAST_BYTES:].decode(errors="replace")

    def stopped(self) -> int:
        """The exit code, once it has ended."""
        assert self.process is not None
        return self.process.wait(STOPPING_S)


@dataclass
class Processes:
    """Three kinds of server and two of client, each named after its kind and number."""

    url: str
    folder: Path
    coordinator_module: str = "sparklog"
    writer_module: str = "tests.soak.writer"
    all: dict[str, Running] = field(default_factory=dict)
    proxies: dict[str, TcpProxy] = field(default_factory=dict)

    def coordinator(self, number: int) -> Running:
        """A coordinator behind a proxy of its own, which is the address that it advertises."""
        name = f"coordinator-{number}"
        proxy = self.proxies[name] = TcpProxy().__enter__()
        proxy.upstream = ("127.0.0.1", free_port())
        listen = f"127.0.0.1:{proxy.upstream[1]}"
        advertise = f"http://127.0.0.1:{proxy.port}"
        options = ["coordinator", "--listen", listen, "--advertise", advertise]
        return self._start(name, ["-m", self.coordinator_module, "--cluster", self.url, "--format", "json", *options])

    def agent(self, store: str) -> Running:
        options = ["--cluster", self.url, "--format", "json", "agent", "--store", store]
        return self._start(f"agent-{store}", ["-m", "sparklog", *options])

    def writer(self, kind: str, number: int) -> Running:
        name = f"{kind}-{number}"
        return self._start(name, ["-m", self.writer_module, self.url, str(self.journal(name)), name, kind])

    def reader(self, number: int) -> Running:
        name = f"reader-{number}"
        return self._start(name, ["-m", "tests.soak.reader", self.url, str(self.journal(name)), name])

    def journal(self, name: str) -> Path:
        return self.folder / f"{name}.journal"

    def named(self, *kinds: str) -> list[Running]:
        """The processes of these kinds."""
        return [running for name, running in self.all.items() if name.startswith(kinds)]

    def heal(self) -> None:
        """Every connection is open, and every process runs."""
        for proxy in self.proxies.values():
            proxy.mode = Mode.OPEN
        for running in self.all.values():
            if not running.is_alive:
                running.start()
            elif running.paused:
                running.wake()

    def stop(self, *kinds: str) -> dict[str, int]:
        """Stop those of these kinds cleanly; their exit codes."""
        stopping = self.named(*kinds)
        for running in stopping:
            running.ask_to_stop()
        return {running.name: running.stopped() for running in stopping}

    def end(self) -> None:
        """Whatever is left has ended after this."""
        for running in self.all.values():
            if running.is_alive:
                running.kill()
        for proxy in self.proxies.values():
            proxy.__exit__(None, None, None)

    def _start(self, name: str, arguments: Sequence[str]) -> Running:
        running = self.all[name] = Running(name, [sys.executable, *arguments], self.folder / f"{name}.out")
        running.start()
        return running
