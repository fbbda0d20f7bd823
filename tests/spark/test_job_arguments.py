"""jobs/NAME.py from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.spark.job_arguments import main, parse_now_ms
from sparklog.spark.retention_job import run_retention
from sparklog.spark.roll_job import run_roll
from tests.spark.maintained_log import MaintainedLog

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def url(tmp_path: Path) -> str:
    root = str(tmp_path / "cluster")
    init_cluster(root)
    with sparklog.connect(root) as cluster:
        log = MaintainedLog(cluster)
        log.topic("t", 2)
        for partition in (0, 1):
            log.append("t", partition, 20)
    return root


def test_a_plan_needs_no_session_and_its_report_is_written(
    url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:  # M: R-06
    file = tmp_path / "report.json"
    arguments = ["--cluster", url, "--topic", "t", "--dry-run", "--now", "2050-01-01T00:00:00Z", "--report", str(file)]
    assert main("retention", "…", run_retention, arguments) == 0
    document = json.loads(file.read_text())
    assert (document["job"], document["dry_run"], document["planned"]["records"]) == ("retention", True, 40)
    out, err = capfd.readouterr()
    assert out == ""
    assert "t-1" in err
    assert main("retention", "…", run_retention, [*arguments[:-1], "-"]) == 0
    assert json.loads(capfd.readouterr().out)["planned"] == document["planned"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--cluster", "{url}", "--topic", "orders"], 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'orders'"),
        (["--cluster", "{url}/none"], 3, "CLUSTER_NOT_FOUND"),
        (["--cluster", "{url}", "--now", "yesterday"], 2, "INVALID_OPTION: --now"),
        (["--cluster", "memory://here"], 2, "INVALID_REQUEST: memory://here lives in one process"),
        ([], 2, "INVALID_REQUEST: which cluster?"),
    ],
)
def test_errors_have_their_exit_code_and_go_to_stderr(
    url: str, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main("roll", "…", run_roll, [each.format(url=url) for each in arguments]) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err


def test_now_is_milliseconds_or_iso_with_a_zone() -> None:
    assert parse_now_ms("1388534400000") == parse_now_ms("2014-01-01T00:00:00Z") == 1_388_534_400_000


@pytest.mark.parametrize("job", ["roll", "retention", "vacuum"])
def test_every_job_has_help(job: str) -> None:
    done = subprocess.run(
        [sys.executable, f"jobs/{job}.py", "--help"],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=True,
    )
    for option in ("--cluster", "--topic", "--now", "--dry-run", "--report", *(["--all"] if job == "roll" else [])):
        assert option in done.stdout


@pytest.mark.spark
def test_spark_submit_runs_a_job(url: str, tmp_path: Path) -> None:  # M: R-06
    submit = Path(sys.executable).parent / "spark-submit"
    report = tmp_path / "report.json"
    settings = ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1", f"spark.local.dir={tmp_path}"]
    done = subprocess.run(
        [
            str(submit),
            "--master",
            "local[1]",
            *(part for each in settings for part in ("--conf", each)),
            "jobs/roll.py",
            *("--cluster", url, "--all", "--report", str(report)),
        ],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_text())["done"]["records"] == 40
    with sparklog.connect(url) as cluster:
        assert cluster.read("t", partition=1).num_rows == 20
