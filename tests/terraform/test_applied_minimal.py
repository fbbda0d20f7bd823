"""`minimal`, applied to the emulators, works: its bucket holds a cluster, its schedules' jobs run, and it all goes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import airportsdata
import pytest

import sparklog
from tests.clusters.artefacts import ROOT
from tests.clusters.artefacts import dist as dist
from tests.terraform.applied import REGION, Applied, applied_example
from tests.terraform.as_emr import run_start
from tests.terraform.rules.jobs import SCHEDULED
from tests.terraform.rules.rules import RULES
from tests.terraform.running_tasks import run

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("has_provider"),
]

_AIRPORTS: Final = Path(airportsdata.__file__).parent / "airports.csv"
_LINES: Final = 3_001
_NOT_MADE: Final = {  # by minimal, which has no coordinators
    *("VPCs", "subnets", "security groups", "route tables", "endpoints", "ECS clusters", "ECS services", "zones"),
    *("task definitions", "load balancers", "target groups", "repositories", "secrets", "policies"),
}


@pytest.fixture(scope="module")
def minimal(has_provider: None, dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applied]:
    with applied_example("minimal", tmp_path_factory.mktemp("minimal"), dist) as made:
        yield made


@pytest.fixture(scope="module")
def airports(job_folder: Path) -> Path:
    """The first of them, with the line of their names."""
    file = job_folder / "airports.csv"
    with _AIRPORTS.open(newline="") as lines:
        file.write_text("".join(islice(lines, _LINES)), newline="")
    return file


@pytest.fixture(scope="module")
def cluster(minimal: Applied, job_folder: Path) -> dict[str, str]:
    """The cluster, set up by the command of the example's output. Gives the variables of whoever uses it."""
    config = job_folder / "sparklog.toml"
    config.write_text(minimal.outputs["sparklog_conf"])
    variables = {**minimal.account.variables(REGION), "SPARKLOG_CONFIG": str(config)}
    print(run(minimal.outputs["init_command"], variables))
    return variables


def test_what_was_applied_keeps_every_rule(minimal: Applied) -> None:
    assert {name: wrong for name, rule in RULES.items() if (wrong := rule(minimal.deployment))} == {}


def test_a_second_plan_changes_nothing(minimal: Applied) -> None:
    assert minimal.differences() == []


def test_rows_that_spark_writes_are_read_back(
    minimal: Applied, cluster: dict[str, str], airports: Path, job_folder: Path
) -> None:
    url = minimal.outputs["sparklog_cluster"]
    for _ in range(2):  # so that roll has something to do
        arguments = ["--cluster", url, "--topic", "airports", "--create", "--config", "segment.ms=1", str(airports)]
        start = minimal.target_input("roll")
        done = run_start(minimal, start, job_folder, instead=(ROOT / "jobs" / "produce.py", arguments))
        assert done.returncode == 0, done.stdout + done.stderr
    assert _read(url, cluster) == _rows(airports) * 2


@pytest.mark.parametrize("job", ["roll", *sorted(SCHEDULED - {"roll"})])
def test_the_arguments_of_each_schedule_run(
    job: str, minimal: Applied, cluster: dict[str, str], airports: Path, job_folder: Path
) -> None:
    start = minimal.target_input(job)
    assert minimal.schedules()[job].values["state"] == "ENABLED"
    done = run_start(minimal, start, job_folder)
    print(f"{job} {' '.join(start['JobDriver']['SparkSubmit']['EntryPointArguments'])}\n{done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert _read(minimal.outputs["sparklog_cluster"], cluster) == _rows(airports) * 2
    assert f'"{job}"' in run("sparklog --format json job status", cluster)


def test_destroy_leaves_nothing(minimal: Applied) -> None:
    made = minimal.inventory()
    missing = {kind for kind, found in made.items() if not found - minimal.before[kind]}
    assert missing == _NOT_MADE
    minimal.destroy()
    left = {kind: found - minimal.before[kind] for kind, found in minimal.inventory().items()}
    assert {kind: found for kind, found in left.items() if found} == {}


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def _read(url: str, variables: dict[str, str]) -> list[dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with sparklog.connect(url) as cluster:
            return [json.loads(value.as_py()) for value in cluster.read("airports", partition=0)["value"]]
