"""Forget old segments, then delete their objects: spark-submit jobs/retention.py --cluster URL [--now TIME] …"""

from __future__ import annotations

import sys

from sparklog.maintenance.retention import run_retention
from sparklog.spark.job_arguments import main

if __name__ == "__main__":
    sys.exit(
        main(
            "retention",
            "Forget what retention.ms and retention.bytes don't keep; objects are deleted after file.delete.delay.ms.",
            run_retention,
        )
    )
