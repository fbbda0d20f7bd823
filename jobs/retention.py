"""Drop old segments, then delete their objects: spark-submit jobs/retention.py --cluster URL [--now TIME] …"""

from __future__ import annotations

import sys

from sparklog.cli.main import run_job

if __name__ == "__main__":
    sys.exit(run_job("retention"))
