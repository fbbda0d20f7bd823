"""Copy topics of Kafka: spark-submit jobs/mirror.py --cluster URL --bootstrap-servers HOST:PORT --topic T …"""

from __future__ import annotations

import sys

from sparklog.cli.main import run_job

if __name__ == "__main__":
    sys.exit(run_job("mirror"))
