"""Maintenance by Airflow 3, for a cluster without a coordinator: put this file into Airflow's folder of DAGs.

Each job is a DAG of its own, so that a failed job is visible in Airflow and does not delay the others. The DAGs need
apache-airflow-providers-standard, and sparklog (or spark-submit) on the workers. The workers' environment gives access
to the stores, as for any other job: docs/stores.md.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

CLUSTER = os.environ.get("SPARKLOG_CLUSTER", "s3://my-bucket/log")
COMMAND = "sparklog job {job}"  # on a Spark cluster: "spark-submit --master yarn /opt/sparklog/jobs/{job}.py"
ARGUMENTS = {"verify": "--share 7"}  # a seventh of the log each day

SCHEDULES = {
    "roll": "*/5 * * * *",
    "compaction": "*/15 * * * *",
    "retention": "*/5 * * * *",
    "vacuum": "30 3 * * *",
    "verify": "30 4 * * *",
    "recovery": "30 5 * * 0",
}

for job, schedule in SCHEDULES.items():
    with DAG(
        dag_id=f"sparklog_{job}",
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,  # a run does all that is due, so those that were missed need not be made up for
        max_active_runs=1,
        default_args={"retries": 1, "retry_delay": timedelta(minutes=1), "execution_timeout": timedelta(hours=6)},
        tags=["sparklog"],
    ):
        BashOperator(
            task_id=job,
            bash_command=" ".join([COMMAND.format(job=job), *ARGUMENTS.get(job, "").split()]),
            env={"SPARKLOG_CLUSTER": CLUSTER},
            append_env=True,
        )
