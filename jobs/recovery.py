"""Check objects above the recovery points, and repair them: spark-submit jobs/recovery.py --cluster URL [--full] …"""

from __future__ import annotations

import sys

from sparklog.cli.main import run_job

if __name__ == "__main__":
    sys.exit(run_job("recovery"))
