"""A scheduler that is in a hurry: all scheduled jobs one after the other, round after round.

Arguments: URL ROUNDS. It says "ready", begins when a line comes, and exits with 1 if a job failed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sparklog.maintenance.jobs import SCHEDULED, job_named

PROJECT = Path(__file__).parents[2]
ROUNDS = 3


@contextmanager
def two_schedulers(url: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Two of them that have begun at the same time, each in a process of its own; killed if they still run."""
    command = [sys.executable, "-m", "tests.faults.scheduled_rounds", url, str(ROUNDS)]
    pipe, errors = subprocess.PIPE, subprocess.STDOUT
    with ExitStack() as running:
        schedulers = []
        for _ in range(2):
            scheduler = subprocess.Popen(command, cwd=PROJECT, stdin=pipe, stdout=pipe, stderr=errors, text=True)
            schedulers.append(running.enter_context(scheduler))
            running.callback(scheduler.kill)
        for scheduler in schedulers:
            assert scheduler.stdout is not None
            assert scheduler.stdout.readline() == "ready\n"
        for scheduler in schedulers:
            assert scheduler.stdin is not None
            scheduler.stdin.write("go\n")
            scheduler.stdin.flush()
        yield schedulers


def main(url: str, rounds: int) -> int:
    jobs = [job_named(name) for name in SCHEDULED]
    print("ready", flush=True)
    sys.stdin.readline()
    return max(job(url).exit_code for _ in range(rounds) for job in jobs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
