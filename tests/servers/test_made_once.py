"""What takes long is made once, by one process, and is nobody's test time."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from tests.servers import made_once as module
from tests.servers.made_once import CannotFetch, made_once, work_folder


def a_file(work: Path) -> Path:
    made = work / "made"
    made.touch()
    return made


def test_it_is_made_once_and_nothing_else_is_left(tmp_path: Path) -> None:
    works: list[Path] = []

    def make(work: Path) -> Path:
        works.append(work)
        return a_file(work)

    for _ in range(2):
        assert made_once(tmp_path / "cache" / "jars", make) == tmp_path / "cache" / "jars"
    assert len(works) == 1
    assert sorted(os.listdir(tmp_path / "cache")) == [".jars.lock", "jars"]


def test_those_who_waited_while_it_failed_fail_with_it_and_the_next_one_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: set[int] = set()
    two_wait = threading.Event()
    attempts: list[Path] = []
    is_locked = module._locked

    def locked(file: IO[str]) -> bool:
        if got := is_locked(file):
            return got
        waiting.add(threading.get_ident())
        if len(waiting) == 2:
            two_wait.set()
        return False

    def fail(work: Path) -> Path:
        attempts.append(work)
        assert two_wait.wait(60)
        raise CannotFetch(f"attempt {len(attempts)}")

    def ask(_: int) -> str:
        with pytest.raises(CannotFetch) as raised:
            made_once(tmp_path / "jars", fail)
        return str(raised.value)

    monkeypatch.setattr(module, "_locked", locked)
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(ask, range(3))) == ["attempt 1"] * 3
    assert ask(0) == "attempt 1"
    failure = tmp_path / ".jars.failed"
    for seconds in (-120, 120):  # long ago, or by a clock that was set back since
        os.utime(failure, (time.time() + seconds,) * 2)
        assert ask(0) == f"attempt {len(attempts)}"
    assert len(attempts) == 3
    os.utime(failure, (0, 0))
    assert made_once(tmp_path / "jars", a_file).is_file()
    assert sorted(os.listdir(tmp_path)) == [".jars.lock", "jars"]


def test_making_is_not_the_time_of_the_test(tmp_path: Path) -> None:
    before = signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        counting: list[float] = []

        def make(work: Path) -> Path:
            counting.append(signal.getitimer(signal.ITIMER_REAL)[0])
            return a_file(work)

        made_once(tmp_path / "jars", make)
        assert counting == [0]
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1000
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_the_last_thread_that_made_something_starts_the_clock_again(tmp_path: Path) -> None:
    both_make, one_is_done = threading.Barrier(2), threading.Event()
    counting: list[float] = []

    def make(work: Path) -> Path:
        both_make.wait(60)
        if work.name.startswith(".slow"):
            assert one_is_done.wait(60)
            counting.append(signal.getitimer(signal.ITIMER_REAL)[0])
        return a_file(work)

    before = signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        with ThreadPoolExecutor(2) as threads:
            slow = threads.submit(made_once, tmp_path / "slow", make)
            threads.submit(made_once, tmp_path / "quick", make).result()
            one_is_done.set()
            slow.result()
        assert counting == [0]
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1000
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    for name in (".jars-1-killed", ".jars-2-of-another", "jars-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").touch()
    with work_folder(tmp_path / "jars-1") as work:
        assert os.listdir(work) == []
        assert sorted(os.listdir(tmp_path)) == sorted([work.name, ".jars-2-of-another", "jars-1"])
    assert sorted(os.listdir(tmp_path)) == [".jars-2-of-another", "jars-1"]
