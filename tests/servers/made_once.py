"""What takes long to fetch or to make: once for this machine, then kept in the project's ignored cache.

Fetching is not the test's time: a slow network makes a run longer, and fails no test.
"""

from __future__ import annotations

import fcntl
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

CACHE: Final = Path(__file__).parents[2] / ".cache" / "servers"
FETCH_S: Final = 1_200  # for one fetch, with its attempts, on a slow network and a busy machine


class CannotFetch(Exception):
    """This machine does not get what a test needs: offline, or without the client. Fixtures make a skip of it."""


def made_once(path: Path, make: Callable[[Path], Path]) -> Path:
    """`path`, which `make` makes if it is not there: in a work folder it is given, and returns where.

    Several processes may ask at once: one makes it, and the others wait, and fail with it if it raises CannotFetch.
    A killed run leaves no half of it.
    """
    asked = time.time()
    failure = path.parent / f".{path.name}.failed"
    if not path.exists():
        with alone(path):
            if not path.exists():
                _raise_if_failed(failure, asked)
                try:
                    with work_folder(path) as work:
                        make(work).rename(path)
                except CannotFetch as error:
                    failure.write_text(str(error))
                    raise
                failure.unlink(missing_ok=True)
    return path


def _raise_if_failed(failure: Path, since: float) -> None:
    try:
        if failure.stat().st_mtime >= since:
            raise CannotFetch(failure.read_text())
    except FileNotFoundError:
        pass


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Between processes that name the same path one is inside at a time. The time here is not the test's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _clock_of_test_stopped(), (path.parent / f".{path.name}.lock").open("w") as file:
        while not _locked(file):
            time.sleep(0.1)
        yield


@contextmanager
def _clock_of_test_stopped() -> Iterator[None]:
    """pytest-timeout counts with this timer."""
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def work_folder(path: Path) -> Iterator[Path]:
    """A folder for what will be `path`. Removes those that killed runs left: be `alone` with this path."""
    for left in path.parent.glob(f".{path.name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as work:
        yield Path(work)
