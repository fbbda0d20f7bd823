"""A scheduler that is in a hurry: all scheduled jobs one after the other, round after round.

Arguments: URL ROUNDS. It says "ready", begins when a line comes, and exits with 1 if a job failed.
"""

from __future__ import annotations

import sys

from sparklog.maintenance.jobs import SCHEDULED, job_named


def main(url: str, rounds: int) -> int:
    jobs = [job_named(name) for name in SCHEDULED]
    print("ready", flush=True)
    sys.stdin.readline()
    return max(job(url).exit_code for _ in range(rounds) for job in jobs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
