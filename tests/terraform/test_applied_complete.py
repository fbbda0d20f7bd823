"""`complete`, applied to the emulators, works: its tasks run as defined, its jobs reach them, and it all goes."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.clusters.artefacts import dist as dist
from tests.servers.certificates import Authority
from tests.terraform.applied import REGION, Applied, applied_example
from tests.terraform.as_ecs import run_container
from tests.terraform.as_emr import run_start
from tests.terraform.rules.rules import RULES
from tests.terraform.running_tasks import RunningTasks, run, running_tasks

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("has_provider"),
]

_SERVICES: Final = {"mine-coordinator-0", "mine-coordinator-1", "mine-agent-a", "mine-agent-b"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def complete(
    has_provider: None, dist: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Applied]:
    folder = tmp_path_factory.mktemp("complete")
    with applied_example("complete", folder, dist, ca_file=authority.file) as made:
        yield made


@pytest.fixture(scope="module")
def tasks(complete: Applied, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTasks]:
    """The cluster, set up, with its coordinators and agents, and a topic on both stores."""
    folder = tmp_path_factory.mktemp("tasks")
    print(run(complete.outputs["init_command"], complete.account.variables(REGION)))
    with running_tasks(complete, authority, folder) as running:
        running.run("sparklog topic create orders -r 2", "operator-token")
        yield running


def test_what_was_applied_keeps_every_rule(complete: Applied) -> None:
    assert {name: wrong for name, rule in RULES.items() if (wrong := rule(complete.deployment))} == {}


def test_a_second_plan_changes_nothing(complete: Applied) -> None:
    assert complete.differences() == []


def test_each_coordinator_answers_over_tls_only(tasks: RunningTasks) -> None:
    for address in tasks.addresses:
        assert (tasks.status(address, "/healthz"), tasks.status(address, "/readyz")) == (200, 200)
        with pytest.raises((OSError, urllib.error.URLError)):
            urllib.request.urlopen(address.replace("https:", "http:") + "/healthz", timeout=10).close()


def test_a_record_goes_through_the_coordinators_to_both_stores(tasks: RunningTasks) -> None:
    tasks.run("sparklog produce orders --key-separator :", "loader", "anna:1 tea\nben:2 cups\n")
    assert _orders(tasks) == ["1 tea", "2 cups"]
    replicas = json.loads(tasks.run("sparklog --format json topic describe orders", "operator-token"))
    assert "a" in json.dumps(replicas)
    assert "b" in json.dumps(replicas)


def test_what_is_not_allowed_is_refused(tasks: RunningTasks) -> None:
    with pytest.raises(AssertionError, match="AUTHORIZATION_FAILED"):
        tasks.run("sparklog topic delete orders", "loader")


def test_the_operator_works_beside_the_coordinators(complete: Applied, tasks: RunningTasks, tmp_path: Path) -> None:
    (operator,) = (each for each in complete.containers().values() if each["name"] == "operator")
    variables = tasks.variables_of(operator, {})
    done = run_container(operator, variables, tmp_path / "operator", ["cluster", "info"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert complete.outputs["metadata_url"] in done.stdout


@pytest.mark.parametrize("job", ["roll", "vacuum"])
def test_the_arguments_of_a_schedule_reach_the_coordinators(
    job: str, complete: Applied, tasks: RunningTasks, job_folder: Path
) -> None:
    start = complete.target_input(job)
    done = run_start(complete, start, job_folder, mapped=tasks.mapped)
    print(f"{job} {' '.join(start['JobDriver']['SparkSubmit']['EntryPointArguments'])}\n{done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert job in tasks.run("sparklog --format json job status", "operator-token")


def test_coordinators_print_the_metrics_that_alarms_watch(tasks: RunningTasks) -> None:
    first, *_ = (folder for family, folder in tasks.folders.items() if "coordinator" in family)
    printed = [json.loads(line) for line in (first / "output").read_text().splitlines() if line.startswith('{"_aws"')]
    assert {each["Cluster"] for each in printed} == {tasks.applied.outputs["metadata_url"]}
    assert any("sparklog_active_controller" in each for each in printed)


def test_no_secret_is_printed_or_left_for_others(tasks: RunningTasks) -> None:
    for folder in tasks.folders.values():
        shown = (folder / "output").read_text()
        assert not any(token in shown for token in tasks.tokens.values())
        for file in (folder / "sparklog").iterdir():
            assert file.stat().st_mode & 0o077 == 0, file


def test_the_next_coordinator_takes_over_when_ecs_stops_one(tasks: RunningTasks) -> None:
    first, *_ = tasks.processes
    tasks.processes[first].send_signal(signal.SIGTERM)
    assert tasks.processes[first].wait(tasks.applied.containers()[first]["stopTimeout"]) == 0
    tasks.run("sparklog produce orders --key-separator :", "loader", "carl:3 spoons\n")
    assert _orders(tasks) == ["1 tea", "2 cups", "3 spoons"]


def test_destroy_leaves_nothing(complete: Applied) -> None:
    made = complete.inventory()
    missing = {kind for kind, found in made.items() if not found - complete.before[kind]}
    assert missing == {"policies"}
    complete.destroy()
    left = {kind: found - complete.before[kind] for kind, found in complete.inventory().items()}
    # Revisions of task definitions, to which ECS may have to return, stay on purpose. They cost nothing.
    revisions = left.pop("task definitions")
    assert {arn.rpartition("/")[2] for arn in revisions} == {f"{family}:1" for family in _SERVICES}
    assert {kind: found for kind, found in left.items() if found} == {}


def _orders(tasks: RunningTasks) -> list[str]:
    records = tasks.run("sparklog --format json consume orders --offset start", "operator-token")
    return [json.loads(line)["value"] for line in records.splitlines()]
