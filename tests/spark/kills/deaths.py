"""Deaths of executors and drivers that a test plans, and a Python worker of Spark brings about.

    with deaths.planned(Victim.EXECUTOR, 3) as death:
        ...                                       # whatever runs on the executors
    assert death.came()

Each worker counts its changes of a store. The first one that comes to its fourth change kills the victim before it:
steps count from 0. Only workers of a session with `settings` do that: their daemon is `deadly_daemon`.

No worker is chosen before: that might be one whose task Spark has given up, because a copy of the task was faster.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from sparklog.host.deadline import Deadline, tries

FOLDER: Final = "SPARKLOG_TEST_DEATHS"  # in the environment of workers: where the plan is
_PLAN: Final = "plan"


class Victim(StrEnum):
    """Whom a worker kills, with SIGKILL. The workers of a real cluster have the same parents."""

    EXECUTOR = "executor"  # its own executor, and itself
    DRIVER = "driver"  # the driver of a local-cluster, Python and JVM; its executors go on until they notice


@dataclass(frozen=True)
class Death:
    """One that is planned. With `reads`, they are steps, too. `always`: all who come there die, not only the first."""

    folder: Path
    victim: Victim
    step: int
    reads: bool = False
    always: bool = False
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def workers(self) -> Path:
        """A folder with an empty file for each process group of workers that came to a step, named by its number."""
        return self.folder / f"{self.id}.workers"

    @property
    def _mark(self) -> Path:
        return self.folder / f"{self.id}.came"

    def came(self) -> bool:
        """Whether the victim was killed."""
        return self._mark.exists()

    def wait_for_the_dead(self) -> None:
        """Wait until nothing runs any more of the executors that died: what they upload late would be left for ever."""
        if self.victim is Victim.DRIVER:
            dying = [mark.name for mark in self.workers.iterdir()]
        else:
            dying = self._mark.read_text().split()
        for group in dying:
            wait_for_group(int(group))

    def is_mine(self) -> bool:
        """Whether the worker that asks is the one to do it: the first, or each with `always`."""
        return self.always or _first(self.folder / f"{self.id}.chosen")

    def bring(self) -> None:
        """Kill the victim. Comes back if that is the driver."""
        with self._mark.open("a") as mark:
            mark.write(f"{os.getpgrp()}\n")
        executor = parent_of(os.getppid())  # a worker's parent is the daemon
        if self.victim is Victim.DRIVER:
            driver = parent_of(executor)
            os.kill(parent_of(driver), signal.SIGKILL)
            os.kill(driver, signal.SIGKILL)
        else:
            os.kill(executor, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Deaths:
    """The plans of a session's workers are in `folder`."""

    folder: Path

    def settings(self) -> dict[str, str]:
        """The settings of a Spark session whose executors die as planned."""
        return {
            "spark.python.daemon.module": "tests.spark.kills.deadly_daemon",
            f"spark.executorEnv.{FOLDER}": str(self.folder),
            "spark.deploy.maxExecutorRetries": "-1",
        }

    @contextmanager
    def planned(self, victim: Victim, step: int, *, reads: bool = False, always: bool = False) -> Iterator[Death]:
        """While the block runs, a worker kills the victim before its `step`-th change of a store, counted from 0."""
        death = Death(self.folder, victim, step, reads, always)
        death.workers.mkdir(parents=True)
        written = self.folder / death.id
        written.write_text(json.dumps([victim, step, reads, always, death.id]))
        written.rename(self.folder / _PLAN)
        try:
            yield death
        finally:
            (self.folder / _PLAN).unlink()
            if death.came():
                death.wait_for_the_dead()


class Worker:
    """In a worker: what it knows of the plan. `come` is called before each call of a store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._id = ""
        self._step = 0

    def come(self, changes: bool) -> None:
        try:
            victim, *planned = json.loads((self._folder / _PLAN).read_text())
        except FileNotFoundError:
            return
        death = Death(self._folder, Victim(victim), *planned)
        if not (changes or death.reads):
            return
        if death.id != self._id:
            (death.workers / str(os.getpgrp())).touch()
            self._id, self._step = death.id, 0
        step, self._step = self._step, self._step + 1
        if step == death.step and death.is_mine():
            death.bring()


def wait_for_group(group: int) -> None:
    """Wait until no process of this group runs."""
    for _ in tries(Deadline(300_000)):
        if not _running(group):
            return
    raise AssertionError(f"processes of group {group} still run: {_running(group)}")


def parent_of(process: int) -> int:
    """The parent of a process."""
    shown = subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], check=True, capture_output=True, text=True)
    return int(shown.stdout)


def _running(group: int) -> list[str]:
    """A line for each process of the group that is not a zombie, whom perhaps nobody will ever wait for."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,stat=,args="], check=True, capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [" ".join(row) for row in rows if int(row[0]) == group and not row[1].startswith("Z")]


def _first(mark: Path) -> bool:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
