"""The planner's process as Java sees it: one that prints, hangs, is busy for long, or dies."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sparklog.spark.planner import planner
from tests.jvm.java_program import run_java

Ask = Callable[..., str]
LIMIT_S = 5

# A planner in a few lines. ATTEMPT is 1 in the first process, 2 in the next one, and so on.
SMALL_PLANNER = """
import os, pathlib, signal, struct, sys

with open({attempts!r}, "a") as attempts:
    attempts.write(f"{{os.getpid()}}\\n")
ATTEMPT = len(pathlib.Path({attempts!r}).read_text().split())
HEAD = struct.Struct(">iqc")

def receive():
    head = sys.stdin.buffer.read(HEAD.size)
    if len(head) < HEAD.size:
        os._exit(0)
    length, number, kind = HEAD.unpack(head)
    return number, kind, sys.stdin.buffer.read(length + 4 - HEAD.size)

def send(number, kind, payload):
    os.write(1, HEAD.pack(HEAD.size - 4 + len(payload), number, kind) + payload)

os.write(1, {start!r})
{program}
while True:
    number, kind, payload = receive()
    send(number, b"P" if kind == b"P" else b"J", b"" if kind == b"P" else str(ATTEMPT).encode())
"""
STOPS_BEFORE_IT_READS = """
if ATTEMPT == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
"""
STOPS = """
if ATTEMPT == 1:
    receive()
    os.kill(os.getpid(), signal.SIGSTOP)
"""
DIES = """
if ATTEMPT < 3:
    receive()
    os.kill(os.getpid(), signal.SIGKILL)
"""
IS_BUSY = f"""
number, _, _ = receive()
for _ in range({2 * LIMIT_S}):
    ping, kind, _ = receive()
    assert kind == b"P"
    send(ping, b"P", b"")
send(number, b"J", b'"at last"')
"""


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """ask(program, "once" or "again") -> what Java prints when its planners run this program first."""

    def printed(program: str, times: str = "again") -> str:
        attempts, file, python = tmp_path / "attempts", tmp_path / "planner.py", tmp_path / "python"
        file.write_text(SMALL_PLANNER.format(attempts=str(attempts), start=planner.START, program=program))
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -S {file} "$@"\n')
        python.chmod(0o755)
        try:
            out = run_java("planner.AskPlanner", str(python), str(LIMIT_S), times, timeout_s=120).stdout
        finally:
            _end(attempts)
        return out.strip()

    return printed


@pytest.mark.parametrize("program", [STOPS, STOPS_BEFORE_IT_READS])
def test_a_planner_that_is_stopped_is_replaced(ask: Ask, program: str) -> None:
    """It answers no ping. The request, of a mebibyte, is longer than what a pipe holds."""
    assert ask(program) == "2"


def test_a_planner_that_is_stopped_is_named(ask: Ask) -> None:
    assert f"found that it showed no sign of life for {LIMIT_S} s" in ask(STOPS, "once")


def test_a_planner_that_answers_pings_has_time(ask: Ask) -> None:
    """It answers twice as many pings as it may leave out before it answers the request."""
    assert ask(IS_BUSY, "once") == '"at last"'


def test_a_request_is_repeated_once_if_it_changes_nothing(ask: Ask) -> None:
    """The third planner would answer."""
    assert "found that signal 9 ended it" in ask(DIES)


def test_a_request_that_may_change_something_is_sent_once(ask: Ask) -> None:
    """The second planner would answer."""
    assert "found that signal 9 ended it" in ask(DIES.replace("< 3", "< 2"), "once")


def test_what_python_prints_is_no_answer(tmp_path: Path) -> None:
    """Neither at its start nor later, and also if it looks like a message."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'sparklog.spark.planner' in sys.orig_argv:\n"
        "    os.write(1, b'hello from the start\\n' + bytes(range(256)))\n"
        "    print('hello from a buffer')\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    done = run_java("planner.AskPlanner", sys.executable, "60", "once", env=environment)
    assert done.stdout == "null\n"
    assert "hello from the start" in done.stderr
    assert "hello from a buffer" in done.stderr


def failure(python: str, **environment: str) -> str:
    """The error of a planner that this Python can't run."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    return run_java("planner.AskPlanner", python, "60", "once", env=environment).stdout.strip()


WANTED = (
    "; wanted Python 3.11 or newer with sparklog: install it there, or set spark.sparklog.python (or SPARKLOG_PYTHON)"
)


def test_a_python_that_is_missing_is_named() -> None:
    found = failure("/no/python")
    assert found.startswith('PLANNER_FAILED: wanted to start a planner, found: Cannot run program "/no/python"')
    assert WANTED in found


def test_a_python_without_sparklog_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -P "$@"\n')
    python.chmod(0o755)
    version = "{}.{}".format(*sys.version_info)
    assert (
        f"exit code 1 (its standard error, in the log of this JVM, may say why): it is Python {version} "
        f"without sparklog{WANTED}" in failure(str(python))
    )


def _runs(python: str) -> bool:
    """False for a shim without a Python behind it."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def test_an_older_python_is_named(tmp_path: Path) -> None:
    """As with PySpark 3.5, which runs on Python 3.8."""
    old = [*map(str, Path.home().glob(".pyenv/versions/3.10.*/bin/python3")), shutil.which("python3.10")]
    python = next((path for path in old if path is not None and _runs(path)), None)
    if python is None:
        pytest.skip("no Python 3.10 on this machine")
    assert f": it is Python 3.10{WANTED}" in failure(python, PYTHONPATH=os.getcwd())


@pytest.mark.sparks("planner")
def test_the_planner_has_a_python_of_its_own(tmp_path: Path) -> None:
    """SPARKLOG_PYTHON goes before the Python of Spark's workers."""
    assert '"/of/workers"' in failure("", PYSPARK_PYTHON="/of/workers")
    assert '"/own/python"' in failure("", PYSPARK_PYTHON="/of/workers", SPARKLOG_PYTHON="/own/python")


def test_a_ping_is_answered_while_a_request_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the requests of one thread do can't keep those of another one waiting."""
    answered = threading.Event()
    requests, replies = os.pipe(), os.pipe()

    def answer(payload: bytes) -> bytes:
        assert answered.wait(60)
        return b'"late"'

    monkeypatch.setitem(planner._REQUESTS, "slow", answer)
    with (
        os.fdopen(requests[0], "rb") as received,
        os.fdopen(requests[1], "wb", buffering=0) as asked,
        os.fdopen(replies[0], "rb") as answers,
        os.fdopen(replies[1], "wb") as sent,
    ):
        serving = threading.Thread(target=planner.serve, args=(received, sent, planner.PROTOCOL))
        serving.start()
        for number, kind, payload in ((1, b"J", b'{"name":"slow"}'), (2, b"P", b"")):
            asked.write(planner._HEAD.pack(9 + len(payload), number, kind) + payload)
        assert answers.read(len(planner.START)) == planner.START
        assert _message(answers) == (2, b"P", b"")
        answered.set()
        assert _message(answers) == (1, b"J", b'"late"')
        asked.close()
        serving.join()


def _message(replies: io.BufferedIOBase) -> tuple[int, bytes, bytes]:
    length, number, kind = planner._HEAD.unpack(replies.read(planner._HEAD.size))
    return number, kind, replies.read(length - 9)


def _end(attempts: Path) -> None:
    """Wait for the planners. The last one ends when its input does, unless it is stopped."""
    for pid in attempts.read_text().split():
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(pid))
            while process.status() != psutil.STATUS_ZOMBIE:
                if process.status() == psutil.STATUS_STOPPED:
                    process.kill()
                time.sleep(0.05)
