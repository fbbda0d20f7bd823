"""A block that fails leaves no process behind; one that succeeds leaves its processes, and those before it, running."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from bench.children import ended_on_failure


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def sleeping() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"])


def test_interrupted_start_kills_what_it_has_started_and_nothing_else(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, how: killed.append((pid, how)))
    started.append(sleeping())

    def interrupted() -> None:
        with ended_on_failure():
            started.append(sleeping())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    monkeypatch.undo()
    assert killed == [(started[1].pid, signal.SIGKILL)]


def test_what_a_good_start_has_started_goes_on(started: list[subprocess.Popen[bytes]]) -> None:
    with ExitStack() as block:
        block.enter_context(ended_on_failure())
        started.append(sleeping())
    assert started[0].poll() is None
