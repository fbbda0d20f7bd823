"""Compare all stored objects with the chain: spark-submit jobs/verify.py --cluster URL [--share 7] …"""

from __future__ import annotations

import sys

from sparklog.cli.main import run_job

if __name__ == "__main__":
    sys.exit(run_job("verify"))
