"""One job on a local Spark in a process of its own: python -m sparklog.spark.job_child JOB CLUSTER REPORT.

Like `maintenance/job_child.py`, for the jobs that need Spark. Spark starts only if there is work for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from sparklog.core.errors import InvalidInput
from sparklog.maintenance.compaction import run_compaction
from sparklog.maintenance.job_child import main
from sparklog.maintenance.report import JobReport
from sparklog.spark.compaction import SparkKeyShuffle
from sparklog.spark.session import job_session
from sparklog.spark.tasks import SparkTasks


def job_on_spark(name: str) -> Callable[[str], JobReport]:
    """The function that runs the job on the cluster at an address. Raises InvalidInput."""
    if name != "compaction":
        raise InvalidInput(f"wanted the job compaction, found {name!r}")
    session = partial(job_session, name)
    return lambda cluster: run_compaction(cluster, shuffle=SparkKeyShuffle(session), tasks=SparkTasks(session))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], job_on_spark))
