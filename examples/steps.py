"""Shared parts of the demos: lines with the time since the start, and checks that end a demo if they fail."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


class CheckFailed(Exception):
    """A step gave a result other than the expected one."""


class Steps:
    """Prints the steps of a demo, and checks their results. `started`: time of its start, in monotonic seconds."""

    def __init__(self, started: float) -> None:
        self.started = started

    def say(self, line: str) -> None:
        """Print a line with the time since the start."""
        print(f"[{time.monotonic() - self.started:5.1f} s] {line}", flush=True)

    def detail(self, line: str) -> None:
        """Print an indented line, a detail of the step above it."""
        print(f"          {line}", flush=True)

    def check(self, what: str, found: object, wanted: object) -> None:
        """Raise CheckFailed unless `found` equals `wanted`."""
        if found != wanted:
            raise CheckFailed(f"{what}: wanted {wanted}, found {found}")


def environment() -> dict[str, str]:
    """Environment variables for child processes: this process's, but with this Python's Spark, and few log lines."""
    own = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    own["PYSPARK_PYTHON"] = own["PYSPARK_DRIVER_PYTHON"] = sys.executable
    own["SPARK_CONF_DIR"] = str(PROJECT / "conf")
    own.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # In JVMs that end this soon, the optimizing compiler takes a quarter to a half of the CPU time.
    own.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    return own
