"""jobs/NAME.py from the command line: the verbs of `sparklog job`, under the name that spark-submit is given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError

import sparklog
from sparklog.cli.main import run_job
from sparklog.client.bootstrap import init_cluster
from sparklog.core.errors import InvalidInput
from sparklog.maintenance.job_report import JobReport
from tests.maintenance.maintained_log import MaintainedLog

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
    assert run_job("retention", arguments) == 0
    document = json.loads(file.read_text())
    assert (document["job"], document["dry_run"], document["planned"]["records"]) == ("retention", True, 40)
    out, err = capfd.readouterr()
    assert "t-1" in out
    assert err == ""
    assert run_job("retention", [*arguments[:-1], "-"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["planned"] == document["planned"]
    assert "t-1" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--cluster", "{url}", "--topic", "orders"], 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'orders'"),
        (["--cluster", "{url}/none"], 3, "CLUSTER_NOT_FOUND"),
        (["--cluster", "{url}", "--now", "yesterday"], 2, "INVALID_OPTION: --now"),
        (["--cluster", "memory://here"], 2, "INVALID_REQUEST: memory://here exists in one process"),
        ([], 2, "INVALID_REQUEST: no cluster is given"),
    ],
)
def test_errors_have_their_exit_code_and_go_to_stderr(
    url: str, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert run_job("roll", [each.format(url=url) for each in arguments]) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err


def test_a_report_that_cannot_be_written_is_found_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sparklog.maintenance.rewrite.roll_job.run_roll", lambda **_: pytest.fail("the job was begun"))
    locked, dangling, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    locked.touch()
    dangling.symlink_to(tmp_path / "nothing")
    os.mkfifo(pipe)
    for report in (tmp_path, tmp_path / "none" / "r.json", locked / "r.json", dangling, pipe, Path("/dev/null")):
        arguments = ["--cluster", str(tmp_path / "cluster"), "--report", str(report)]
        assert run_job("roll", arguments) == 2
        out, err = capfd.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("INVALID_REQUEST: --report: ")
        assert err.endswith("nothing was begun\n")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "interrupted: committed work stays"),
        (InvalidInput("it\nis wrong"), 2, "INVALID_REQUEST: it is wrong"),
        (ZeroDivisionError("x"), 1, "UNKNOWN_SERVER_ERROR: ZeroDivisionError: x; SPARKLOG_DEBUG=1 shows where"),
        (
            PySparkRuntimeError("[TASK_WRITE_FAILED] it failed\n[NO_SPACE] the disk is full. SQLSTATE: 1"),
            1,
            "UNKNOWN_SERVER_ERROR: PySparkRuntimeError: NO_SPACE: the disk is full; ",
        ),
    ],
)
def test_whatever_ends_a_job_early_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    def run_roll(**_: object) -> JobReport:
        raise error

    monkeypatch.setattr("sparklog.maintenance.rewrite.roll_job.run_roll", run_roll)
    assert run_job("roll", ["--cluster", "/c"]) == code
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(line)


@pytest.mark.parametrize("job", ["roll", "retention", "vacuum", "replication", "materialize"])
def test_every_job_has_help(job: str) -> None:
    done = subprocess.run(
        [sys.executable, f"jobs/{job}.py", "--help"],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"Usage: spark-submit jobs/{job}.py" in done.stdout
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
    assert "replaced a statically registered" not in done.stderr + done.stdout
    assert json.loads(report.read_text())["done"]["records"] == 40
    with sparklog.connect(url) as cluster:
        assert cluster.read("t", partition=1).num_rows == 20


def test_a_job_takes_the_settings_of_every_verb(url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "sparklog.toml"
    config.write_text(f'cluster = "{url}"\n')
    assert run_job("roll", ["--config", str(config), "--format", "json", "--all", "--dry-run"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["planned"]["records"] == 40
    assert "t-1" in err
