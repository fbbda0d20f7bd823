"""Delete what failed writers left behind: spark-submit jobs/vacuum.py --cluster URL [--dry-run] …"""

from __future__ import annotations

import sys

from sparklog.maintenance.vacuum import run_vacuum
from sparklog.spark.job_arguments import main

if __name__ == "__main__":
    sys.exit(
        main(
            "vacuum",
            "Raise FLOOR (floor.delay.ms), and delete what failed writers left behind below it.",
            run_vacuum,
        )
    )
