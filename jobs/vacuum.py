"""Delete objects that no write can name any more: spark-submit jobs/vacuum.py --cluster URL [--dry-run] …"""

from __future__ import annotations

import sys

from sparklog.cli.main import run_job

if __name__ == "__main__":
    sys.exit(run_job("vacuum"))
