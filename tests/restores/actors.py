"""The processes of a round: writers, command lines, and restorers that die at a call of a store."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from sparklog.storage import probe

probe.check_store = lambda store, probe_id: None  # slow, and tested elsewhere; before anybody else imports it

from sparklog.agent import run as _run  # noqa: E402, F401
from sparklog.cli.main import run  # noqa: E402
from sparklog.client import bootstrap  # noqa: E402, F401
from sparklog.client.restoring import restore_cluster  # noqa: E402, F401
from sparklog.coordinator import run as _serve  # noqa: E402, F401
from sparklog.core.errors import SparklogError  # noqa: E402
from tests.faults.deadly_calls import before_each_call, import_clients  # noqa: E402
from tests.soak import writer as soak_writer  # noqa: E402
from tests.soak.journal import Journal  # noqa: E402

import_clients()
os.fsync = lambda fd: None  # a process is killed, not the machine
soak_writer.PAUSE_S = 0.1
soak_writer.TIMEOUT_MS = 4_000


def write(url: str, journal: str, name: str, kind: str) -> int:
    """Write until SIGTERM, as in a soak. The exit code is 3 if the cluster is not there."""
    try:
        soak_writer.main(url, journal, name, kind)
    except SparklogError as error:
        print(error)
        return 3
    return 0


def command(journal: str, *argv: str) -> int:
    """Run a command line, and note when it began and how it ended."""
    noted = Journal(Path(journal))
    noted.note(command=argv)
    code = run(argv)
    noted.note(ended=argv, code=code)
    return code


def mortal(journal: str, step: int, *argv: str) -> int:
    """Run a command line, and be killed before the `step`-th call that changes a store."""
    left = step

    def come(changes: bool) -> None:
        nonlocal left
        if changes:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    before_each_call(come)
    return command(journal, *argv)


def serve(*argv: str) -> int:
    """Run a command line that does not end by itself: an agent, or a coordinator."""
    return run(argv)


ACTORS = {each.__name__: each for each in (write, command, mortal, serve)}
