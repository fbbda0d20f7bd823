"""`sparklog job run-all`: each job in a process of its own, once or again and again."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sparklog as library
from sparklog.core.commands import ReportJob
from sparklog.maintenance.jobs import SCHEDULED as JOBS
from tests.cli.conftest import Cli

DONE = shlex.join([sys.executable, "-c", "print('one'); print('two')"]) + " {job} {cluster}"
FAILS = shlex.join([sys.executable, "-c", "import sys; sys.exit(sys.argv[1] == 'roll')"]) + " {job} {cluster}"


# M: N-06
def test_all_jobs_run_once_in_their_order(orders: Cli) -> None:
    said = orders("job", "run-all")
    assert said.code == 0
    lines = said.out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [[job, "done"] for job in JOBS]
    assert [line.split("  ")[1] for line in said.err.splitlines()] == [f"{job}: nothing was due" for job in JOBS]
    assert [row["job"] for row in orders.json("job", "status")] == list(JOBS)


# M: N-06
def test_one_that_fails_is_shown_and_the_others_run(orders: Cli) -> None:
    said = orders("job", "run-all", "--job-command", FAILS, "--format", "json")
    assert (said.code, [(row["job"], row["outcome"]) for row in said.json]) == (
        1,
        [("roll", "broke off"), ("compaction", "done"), ("retention", "done"), ("vacuum", "done")],
    )
    assert said.json[0]["error"] == "it ended with exit code 1 and without a report"


def test_only_the_jobs_that_are_named_run(orders: Cli) -> None:
    said = orders("job", "run-all", "--job", "vacuum", "--job", "replication", "--job-command", DONE)
    assert said.code == 0
    assert [line.split()[0] for line in said.out.splitlines()[1:]] == ["replication", "vacuum"]


@pytest.mark.parametrize("how", ["option", "variable", "file"])
def test_the_command_comes_from_the_option_the_environment_or_the_config_file(
    orders: Cli, tmp_path: Path, how: str
) -> None:
    if how != "option":
        config = tmp_path / "x.toml"
        config.write_text(f"job_command = {json.dumps('local' if how == 'variable' else FAILS)}\n")
        orders.monkeypatch.setenv("SPARKLOG_CONFIG", str(config))
        if how == "variable":
            orders.monkeypatch.setenv("SPARKLOG_JOB_COMMAND", FAILS)
    given = ["--job-command", FAILS] if how == "option" else []
    assert orders("job", "run-all", "--job", "roll", *given).code == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("--job", "rol"),
            "--job: wanted roll, compaction, retention, replication, recovery, verify, vacuum, found 'rol'",
        ),
        (("--job-command", "none"), "found none, which runs nothing"),
        (("--job-command", "spark-submit jobs/roll.py"), "wanted {job} in it"),
        (("--every", "0"), "--every"),
    ],
)
def test_what_makes_no_sense_is_refused(orders: Cli, arguments: tuple[str, ...], text: str) -> None:
    said = orders("job", "run-all", *arguments)
    assert (said.code, said.out) == (2, "")
    assert text in said.err


# M: N-06
def test_again_and_again_until_it_is_stopped(orders: Cli) -> None:
    with library.connect(orders.url) as cluster:
        report = {"done": {"objects": 0, "records": 0, "bytes": 0}}
        cluster.submit(ReportJob("vacuum", cluster.connection.committer.clock.now_ms(), 0, 0, json.dumps(report)))
    command = [sys.executable, "-m", "sparklog", "--cluster", orders.url, "job", "run-all", "--every", "1"]
    with subprocess.Popen(
        [*command, "--job-command", DONE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        wanted = {"compaction:", "retention:", "roll:"}
        jobs: list[str] = []
        while len(jobs) < 4 or not wanted <= set(jobs):
            jobs.append(running.stderr.readline().split()[1])
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 0
        table = running.stdout.read()
    assert set(jobs) == wanted, "vacuum lists the stores: once a day is enough"
    ended = sorted(line.split()[:2] for line in table.splitlines()[1:])  # by their first ends, in any order
    assert ended == [["compaction", "done"], ["retention", "done"], ["roll", "done"]]


def test_ctrl_c_ends_a_single_round_with_one_line(orders: Cli) -> None:
    held = shlex.join([sys.executable, "-c", "import sys,time; sys.argv[1] == 'roll' or time.sleep(600)"])
    command = [sys.executable, "-m", "sparklog", "--cluster", orders.url, "job", "run-all"]
    with subprocess.Popen(
        [*command, "--job-command", f"{held} {{job}} {{cluster}}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        assert "roll: done" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
        assert running.stderr.read().startswith("interrupted: ")
