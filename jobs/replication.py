"""Copy records that replicas lack to their stores: spark-submit jobs/replication.py --cluster URL [--store ID] …"""

from __future__ import annotations

import sys

from sparklog.cli.main import run_job

if __name__ == "__main__":
    sys.exit(run_job("replication"))
