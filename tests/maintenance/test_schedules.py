"""The ready schedules in conf/: they name jobs that there are, all that must come again. Airflow imports its own."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparklog.cli.main import _commands
from sparklog.maintenance.jobs import JOBS, SCHEDULED
from tests.servers.airflow import airflow_python
from tests.servers.made_once import CannotFetch

CONF = Path(__file__).parents[2] / "conf"
DAG_FILE = CONF / "airflow_dag.py"
CRONTAB = (CONF / "crontab").read_text(encoding="utf-8")
CRON = re.compile(r"(?:\*|\*/\d+|\d+)")
SHOW = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
dags = {
    name: {
        "schedule": dag.schedule, "catchup": dag.catchup, "at_once": dag.max_active_runs,
        "tasks": [[task.task_id, task.bash_command, task.env] for task in dag.tasks],
    }
    for name, dag in bag.dags.items()
}
print(json.dumps({"errors": {str(file): str(error) for file, error in bag.import_errors.items()}, "dags": dags}))
"""


def in_the_dag_file(name: str) -> dict[str, str]:
    """What it says, without Airflow: SCHEDULES or ARGUMENTS, by job."""
    for node in ast.parse(DAG_FILE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise AssertionError(f"there are no {name} in the file")


def commands_of_the_dag_file() -> dict[str, str]:
    """What each job of the file runs."""
    given = in_the_dag_file("ARGUMENTS")
    return {job: f"sparklog job {job} {given.get(job, '')}".rstrip() for job in in_the_dag_file("SCHEDULES")}


def cron_lines() -> list[tuple[list[str], str]]:
    """The five fields and the command of each line of the crontab."""
    lines = [line for line in CRONTAB.splitlines() if line and not line.startswith("#") and not re.match(r"\w+=", line)]
    return [(line.split(None, 5)[:5], line.split(None, 5)[5]) for line in lines]


def check_fields(fields: list[str]) -> None:
    assert len(fields) == 5
    for field, end in zip(fields, (60, 24, 32, 13, 7), strict=True):
        assert CRON.fullmatch(field), field
        assert all(int(number) < end for number in re.findall(r"\d+", field)), field


# M: R-06
def test_the_dag_file_schedules_jobs_that_there_are_and_all_that_must_come_again() -> None:
    schedules = in_the_dag_file("SCHEDULES")
    assert set(SCHEDULED) <= set(schedules) <= set(JOBS), "a new job is also a line in conf/airflow_dag.py"
    assert {"verify", "recovery"} <= set(schedules), "without a coordinator nobody else runs these"
    assert set(in_the_dag_file("ARGUMENTS")) <= set(schedules)
    for schedule in schedules.values():
        check_fields(schedule.split())


# M: R-06
def test_the_crontab_runs_verbs_that_there_are_and_all_jobs_that_must_come_again() -> None:
    verbs = [verb for _, command in cron_lines() for verb in re.findall(r"sparklog job (\S+?)(?=[;)\s]|$)", command)]
    assert set(verbs) <= set(_commands().commands["job"].commands)
    assert set(SCHEDULED) <= set(verbs), "a new job is also a line in conf/crontab"
    assert {"verify", "recovery"} <= set(verbs)
    assert verbs.index("roll") < verbs.index("retention")
    for fields, command in cron_lines():
        check_fields(fields)
        assert "%" not in command, "cron takes it for the end of the line"


def test_the_commands_of_the_crontab_run(tmp_path: Path) -> None:
    """As cron runs them, with a program in the place of sparklog: the shell finds nothing wrong, and each is called."""
    program = tmp_path / "sparklog"
    program.write_text(f'#!/bin/sh\necho "$*" >> {shlex.quote(str(tmp_path))}/calls\n')
    program.chmod(0o755)
    for _, command in cron_lines():
        subprocess.run(["/bin/sh", "-c", command], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    jobs = ("roll", "retention", "compaction", "vacuum", "verify --share 7", "recovery")
    assert calls == [*(f"job {job}" for job in jobs), "job status"]


@pytest.fixture(scope="module")
def airflow() -> Path:
    """The Python that has Airflow."""
    try:
        return airflow_python()
    except CannotFetch as error:
        pytest.skip(f"this machine can't fetch Airflow: {error}")


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_airflow_itself_imports_the_dag_file(airflow: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}  # nothing beside the file
    environment |= {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "SPARKLOG_CLUSTER": "/x"}
    done = subprocess.run(
        [airflow, "-c", SHOW, DAG_FILE], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert shown["errors"] == {}
    assert shown["dags"] == {
        f"sparklog_{job}": {
            "schedule": schedule,
            "catchup": False,
            "at_once": 1,
            "tasks": [[job, commands_of_the_dag_file()[job], {"SPARKLOG_CLUSTER": "/x"}]],
        }
        for job, schedule in in_the_dag_file("SCHEDULES").items()
    }
