"""What takes long to fetch or to make: once for this checkout, then kept in its ignored cache.

Fetching is not the test's time: a slow network makes a run longer, and fails no test. What is not here after FETCH_S is
skipped by name.
"""

from __future__ import annotations

import fcntl
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

CACHE: Final = Path(__file__).parents[2] / ".cache" / "servers"
FETCH_S: Final = 1_200  # for one fetch, with its attempts, on a slow network and a busy machine
_SHARED_S: Final = 60  # who asks so soon after a failure fails with it

_clock_lock = threading.Lock()
_stopped_by = 0  # threads that fetch, or wait for others
_left = (0.0, 0.0)  # of the test's time


class CannotFetch(Exception):
    """This machine does not get what a test needs: offline, or without the client. Fixtures make a skip of it."""


def made_once(path: Path, make: Callable[[Path], Path]) -> Path:
    """Return `path`. If it is not there, `make` makes it in the work folder that it is given, and returns where.

    Several processes may ask at once: one makes it, and the others wait, and fail with it if it raises CannotFetch.
    A killed run leaves no half of it.
    """
    asked = time.time()
    failure = path.parent / f".{path.name}.failed"
    if not path.exists():
        with alone(path), _clock_of_test_stopped():
            if not path.exists():
                _raise_if_failed(failure, asked - _SHARED_S)
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
        if since <= failure.stat().st_mtime <= time.time():
            raise CannotFetch(failure.read_text())
    except FileNotFoundError:
        pass


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Of the processes that name the same path, only one is inside at a time. The others wait, outside of test time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("w") as file:
        with _clock_of_test_stopped():
            while not _locked(file):
                time.sleep(0.1)
        yield


@contextmanager
def _clock_of_test_stopped() -> Iterator[None]:
    """pytest-timeout counts with this timer of the process. The first thread stops it, the last one starts it again."""
    global _stopped_by, _left
    with _clock_lock:
        if not _stopped_by:
            _left = signal.setitimer(signal.ITIMER_REAL, 0)
        _stopped_by += 1
    try:
        yield
    finally:
        with _clock_lock:
            _stopped_by -= 1
            if not _stopped_by:
                signal.setitimer(signal.ITIMER_REAL, *_left)


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
    # A client that was killed may have left children that still write there.
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent, ignore_cleanup_errors=True) as work:
        yield Path(work)
