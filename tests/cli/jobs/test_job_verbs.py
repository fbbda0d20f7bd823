"""`sparklog job …`: what it hands over to the jobs, and what it tells of them. The jobs have their own tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparklog as library
from sparklog.core.commands import ReportJob
from sparklog.maintenance.jobs import JOBS
from sparklog.maintenance.task_runner import LocalTasks
from tests.cli.conftest import Cli
from tests.faults.unchanged_cluster import unchanged

REPORT = {
    "done": {"objects": 1, "records": 2, "bytes": 2048},
    "deletion": {"done": {"objects": 3, "records": 0, "bytes": 5}},
}


def test_no_job_ran_yet(sparklog: Cli) -> None:
    assert sparklog("job", "status").out == "no job has run yet\n"
    assert sparklog.json("job", "status") == []


def test_status_tells_how_each_job_ended_last(sparklog: Cli) -> None:
    with library.connect(sparklog.url) as cluster:
        cluster.submit(ReportJob("roll", 0, 1000, 0, json.dumps(REPORT)))
        cluster.submit(ReportJob("retention", 0, 2000, 0, json.dumps(REPORT)))
    lines = sparklog("job", "status").out.splitlines()
    assert [line.split()[0] for line in lines] == ["job", "roll", "retention"], "in the order in which they run"
    assert lines[1].split()[2:] == ["1970-01-01T00:00:01.000Z", "0", "1", "2", "2.0", "KiB", "3", "5", "B"]
    assert sparklog.json("job", "status")[0]["report"] == REPORT
    with library.connect(sparklog.url) as cluster:
        cluster.submit(ReportJob("roll", 0, 3000, 2, json.dumps(REPORT)))
    said = sparklog("job", "status", "--format", "json")
    assert (said.code, said.json[0]["failed"]) == (5, 2)


def test_a_dry_run_prints_the_plan_and_changes_nothing(orders: Cli) -> None:
    before = orders.json("chain", "state")
    said = orders("job", "roll", "--all", "--dry-run", "--topic", "orders", "--format", "json")
    assert (said.code, said.json["dry_run"], said.json["planned"]["records"]) == (0, True, 3)
    assert "orders-0" in said.err
    said = orders("job", "retention", "--dry-run", "--now", "2100-01-01T00:00:00Z")
    assert (said.code, said.err) == (0, "")
    assert "orders-0" in said.out
    assert orders.json("chain", "state") == before


def test_retention_runs_and_reports(orders: Cli, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    said = orders("job", "retention", "--now", "4102444800000", "--report", str(report), "--format", "json")
    assert said.code == 0
    assert said.json == json.loads(report.read_text())
    assert said.json["done"]["records"] == 3
    assert orders.json("topic", "list")[0]["records"] == 0
    assert [each["job"] for each in orders.json("job", "status")] == ["retention"]
    assert orders("job", "retention", "--report", "-", "--format", "json").json["planned"]["records"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        *(((job, "--topic", "none"), 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'none'") for job in JOBS),
        (("materialize", "--topic", "none", "--table", "/t"), 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'none'"),
        (("roll", "--topic", "orders", "--topic", "none"), 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("retention", "--now", "soon"), 2, "--now: wanted"),
        (("vacuum", "--now", "2026-01-01T00:00:00"), 2, "zone"),
        (("retention", "--report", "/nowhere/at/all"), 2, "/nowhere/at/all can't be written (No such file"),
        (("compactoin",), 2, "No such command"),
    ],
)
def test_what_a_job_cant_do_is_told(orders: Cli, arguments: tuple[str, ...], code: int, text: str) -> None:
    with unchanged(orders.url, ()):
        said = orders("job", *arguments)
    assert (said.code, said.out) == (code, "")
    assert text in said.err


def test_ctrl_c_ends_a_job_with_one_line(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sparklog.maintenance.space.vacuum_job.run_vacuum", interrupted)
    said = orders("job", "vacuum")
    assert (said.code, said.out, said.err.count("\n")) == (130, "", 1)
    assert said.err.startswith("interrupted: ")


@pytest.mark.spark
def test_roll_runs_on_a_local_spark_and_stdout_is_json_alone(orders: Cli, tmp_path: Path) -> None:
    surroundings = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "sparklog", "job", "roll", "--all", "--cluster", orders.url, "--format", "json"],
        env=surroundings,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["done"]["objects"] == 1
    assert "Traceback" not in done.stderr
    assert [each["kind"] for each in orders.json("segment", "list", "orders")] == ["segment"]
    assert orders("consume", "orders").out == "a\nb\nc\n"


def test_verify_reports_differences_and_exits_with_1(
    orders: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparklog.spark.maintain.spark_tasks.SparkTasks", lambda session: LocalTasks())
    assert orders("job", "verify").code == 0
    damaged = next(Path(orders.url).glob("append/*/*.arrow"))
    damaged.unlink()
    report = tmp_path / "verify.json"
    said = orders("job", "verify", "--topic", "orders", "--report", str(report))
    assert said.code == 1
    assert "object-missing" in said.err
    (difference,) = json.loads(report.read_text())["differences"]
    assert (difference["kind"], difference["store"], difference["topic"]) == ("object-missing", "local", "orders")
    assert difference["object"] == str(damaged.relative_to(orders.url))
    assert orders("job", "verify", "--dry-run").code == 0
    assert orders("job", "status").code == 5
    assert orders("job", "verify", "--store", "none").code == 3
    assert orders("job", "verify", "--share", "0").code == 2
