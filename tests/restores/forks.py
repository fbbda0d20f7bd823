"""Processes that begin at once, forked from one that has imported everything: killed, paused and waited for.

    with Forks(environment) as forks:
        forked = forks.start("command", journal, "topic", "list", said=path)      # a function of `actors.py`
        code = forked.wait()                                                      # or minus the signal that ended it

The process that forks ends with its stdin, and all that it forked ends with it.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
PATIENCE_S = 120


@dataclass(frozen=True)
class Forked:
    """One process. `said` is where its output goes."""

    forks: Forks
    number: int
    said: Path

    def kill(self) -> None:
        """SIGKILL, if it runs; then it has ended."""
        self.send(signal.SIGKILL)
        self.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        self.forks.ask(signal=int(number), number=self.number)

    @property
    def is_alive(self) -> bool:
        return self.number not in self.forks.ended

    def wait(self) -> int:
        """The exit code once it has ended, or minus the signal that ended it."""
        with self.forks.changed:
            if not self.forks.changed.wait_for(lambda: not self.is_alive, PATIENCE_S):
                raise AssertionError(f"process {self.said.name} has not ended: {self.said.read_text()}")
            return self.forks.ended[self.number]


class Forks:
    """The process that forks, with this environment beside that of the test."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.ended: dict[int, int] = {}  # the exit codes of those that have ended, by their numbers
        self.changed = threading.Condition()
        self._numbers = itertools.count()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.restores.forks"],
            cwd=PROJECT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches pytest alone, which then closes stdin
        )
        self._reader = threading.Thread(target=self._read, name="forks", daemon=True)
        self._reader.start()

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._reader.join()

    def start(self, actor: str, *arguments: object, said: Path) -> Forked:
        """Let a function of `actors.py` run in a process of its own."""
        said.touch()
        forked = Forked(self, next(self._numbers), said)
        self.ask(actor=actor, arguments=arguments, said=str(said), number=forked.number)
        return forked

    def ask(self, **request: Any) -> None:
        """Send a request."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, code = map(int, line.split())
            with self.changed:
                self.ended[number] = code
                self.changed.notify_all()
        self._process.stdout.close()


# ---- the process that forks ---------------------------------------------------------------------


def serve(actors: Mapping[str, Callable[..., int]]) -> None:
    """Answer requests until stdin ends; then kill whatever was forked."""
    reads, writes = os.pipe()
    for end in (reads, writes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writes)
    selector = selectors.DefaultSelector()
    selector.register(reads, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    running: dict[int, int] = {}  # process ids, by number
    rest = b""
    while True:
        for key, _ in selector.select():
            if key.fd == reads:
                os.read(reads, 4096)
                _reap(running)
                continue
            got = os.read(0, 1 << 16)
            if not got:
                for pid in running.values():
                    os.kill(pid, signal.SIGKILL)
                return
            *lines, rest = (rest + got).split(b"\n")
            for request in map(json.loads, lines):
                number = request["number"]
                if "actor" in request:
                    running[number] = _fork(actors[request["actor"]], request["arguments"], request["said"])
                elif number in running:
                    os.kill(running[number], request["signal"])


def _reap(running: dict[int, int]) -> None:
    """Print the numbers of those that have ended, with their exit codes."""
    for number, pid in list(running.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            del running[number]
            print(number, os.waitstatus_to_exitcode(status), flush=True)


def _fork(actor: Callable[..., int], arguments: list[Any], said: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        output = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for stream, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (output, 2)):
            os.dup2(stream, target)
        code = actor(*arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    import tests.kit.pandas_hidden  # noqa: F401
    from tests.restores import actors

    serve(actors.ACTORS)
