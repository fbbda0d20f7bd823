"""Copy a topic into a Delta table: spark-submit jobs/materialize.py --cluster URL --topic T --table PATH_OR_NAME …"""

from __future__ import annotations

import sys

from sparklog.cli.main import run_job

if __name__ == "__main__":
    sys.exit(run_job("materialize"))
