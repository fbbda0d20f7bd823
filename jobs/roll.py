"""Rewrite append objects into sealed segments: spark-submit jobs/roll.py --cluster URL [--topic T] [--all] …"""

from __future__ import annotations

import sys

from sparklog.maintenance.roll import run_roll
from sparklog.spark.job_arguments import main

if __name__ == "__main__":
    sys.exit(
        main(
            "roll",
            "Rewrite what writers appended into sealed segments, one partition each, by segment.bytes and segment.ms.",
            run_roll,
            flags={"--all": ("everything", "seal everything, also what is neither full nor old")},
        )
    )
