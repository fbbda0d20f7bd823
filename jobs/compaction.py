"""Keep the last record of each key: spark-submit jobs/compaction.py --cluster URL [--topic T] [--all] …"""

from __future__ import annotations

import sys

from sparklog.cli.main import run_job

if __name__ == "__main__":
    sys.exit(run_job("compaction"))
