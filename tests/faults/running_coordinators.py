"""Coordinators as real processes: started, killed, paused and stopped by a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.servers.paused import pause

SESSION_MS = 3_000  # long enough for a busy machine
_PATIENCE_S = 120


@dataclass
class RunningCoordinator:
    """One `sparklog coordinator`. Its events are read as they come."""

    process: subprocess.Popen[str]
    address: str = ""
    seen: list[dict[str, str]] = field(default_factory=list)

    def wait_for(self, event: str) -> str:
        """Read until it says this; returns its text."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            self.seen.append(said)
            if said["event"] == event:
                return str(said["text"])
        raise AssertionError(f"it ended with {self.process.wait()} before it said {event}; it said {self.seen}")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def pause(self) -> None:
        pause(self.process)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class RunningCoordinators:
    """All that a test has started at one cluster."""

    url: str
    started: list[RunningCoordinator] = field(default_factory=list)

    def start(
        self,
        *options: str,
        variables: Mapping[str, str] | None = None,
        open_files: int | None = None,
        module: str = "sparklog",
    ) -> RunningCoordinator:
        """A further one, once it serves. It has these variables beside those of this process.

        `open_files`: so many files and sockets it may have open. `module`: one that runs sparklog's, changed.
        """
        command = [sys.executable, "-m", module, "--cluster", self.url, "--format", "json", "coordinator", *options]
        if open_files is not None:
            command = ["/bin/sh", "-c", f'ulimit -n {open_files}; exec "$0" "$@"', *command]
        environment = os.environ | dict(variables or {})
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment
        )
        running = RunningCoordinator(process)
        self.started.append(running)
        running.address = running.wait_for("serving")
        return running

    def end(self) -> None:
        for each in self.started:
            if each.process.poll() is None:
                os.kill(each.process.pid, signal.SIGCONT)
                each.process.kill()
            each.process.wait()
            assert each.process.stdout is not None
            each.process.stdout.close()


@contextmanager
def running_coordinators(url: str) -> Iterator[RunningCoordinators]:
    running = RunningCoordinators(url)
    try:
        yield running
    finally:
        running.end()


def wait_until_ready(address: str) -> None:
    """Ask as a load balancer does, until somebody leads."""
    end_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end_s:
        try:
            urllib.request.urlopen(f"{address}/readyz", timeout=10).close()
        except urllib.error.URLError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"{address} is not ready after {_PATIENCE_S} s")
