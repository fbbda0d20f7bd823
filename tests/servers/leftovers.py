"""Remove what a process of pytest started and left behind, however it ended: interrupted, killed, or in good order.

The fixture that ends a server does not run in a process that is killed, and pytest-xdist kills its workers if they do
not end soon after Ctrl-C. So each process of pytest has a watcher beside it, which outlives it: this file as a program.
It finds the processes that are left by an environment variable, which every process inherits from the one that started
it. The temporary files of a whole run are in one folder, because a process that is killed removes none of its own.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "STARTED_BY_PYTEST"
_PROCESSES = Path("/proc")
_POLL_S = 1.0
_KILL_POLL_S = 0.05
_KILL_TIMEOUT_S = 10.0
_watchers: list[subprocess.Popen[bytes]] = []  # else Python would close their pipes


def begin_watching() -> str | None:
    """Mark all that this process starts from now on, and let a watcher kill what is left of it when this one ends.

    The outermost process also gets the folder of temporary files, which its watcher removes at last. pytest's own
    (tmp_path) stay where they were: it keeps those of the last three runs.

    Return the mark: that of the process which started this one, and more. None where /proc does not show the
    environments of processes, as on macOS: there fixtures alone end servers.
    """
    if not (_PROCESSES / "self" / "environ").exists():
        return None
    outer = os.environ.get(VARIABLE, "")
    unmarked = {name: value for name, value in os.environ.items() if name != VARIABLE}
    mark = os.environ[VARIABLE] = f"{outer}/{uuid.uuid4().hex}"
    command = [sys.executable, "-I", "-S", __file__, mark, str(os.getpid())]
    if not outer:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        temporaries = tempfile.mkdtemp(prefix="sparklog-tests-")
        tempfile.tempdir = os.environ["TMPDIR"] = temporaries
        command.append(temporaries)
    watcher = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # open as long as this process lives
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=unmarked,
        start_new_session=True,  # Ctrl-C is not for it
    )
    _watchers.append(watcher)
    return mark


def marked(mark: str) -> list[int]:
    """The ids of all processes that bear this mark, or one that begins with it."""
    wanted = f"\0{VARIABLE}={mark}".encode()
    found = []
    for folder in _PROCESSES.iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if wanted in b"\0" + (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found


def _watch(mark: str, parent: int, temporaries: Sequence[str]) -> None:
    """Wait for the end of the parent, then kill what is left, and remove the folders of `temporaries`.

    A fork of the parent holds the pipe open, too, so look at both.
    """
    while os.getppid() == parent and not select.select([sys.stdin], [], [], _POLL_S)[0]:
        pass
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while (left := marked(mark)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_KILL_POLL_S)
    for folder in temporaries:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
