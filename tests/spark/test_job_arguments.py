"""jobs/NAME.py from the command line."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.errors import InvalidInput, Landed, SparklogError
from sparklog.maintenance.report import DeletionResult, JobReport, Work
from sparklog.maintenance.retention import run_retention
from sparklog.maintenance.roll import run_roll
from sparklog.spark import register
from sparklog.spark.job_arguments import check_report_file, exit_code_of, job_session, main, parse_now_ms, write_report
from tests.maintenance.maintained_log import MaintainedLog

PROJECT = Path(__file__).parents[2]
EMPTY_REPORT = JobReport("roll", "file:///c", False, 1, 2, 3, Work(), Work(), 0, (), DeletionResult(), 0, (), 0)


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
    assert "t-1" in out
    assert err == ""
    assert main("retention", "…", run_retention, [*arguments[:-1], "-"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["planned"] == document["planned"]
    assert "t-1" in err


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


def test_a_report_that_cannot_be_written_is_found_before_anything_begins(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    locked, dangling, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    locked.touch()
    dangling.symlink_to(tmp_path / "nothing")
    os.mkfifo(pipe)
    for report in (tmp_path, tmp_path / "none" / "r.json", locked / "r.json", dangling, pipe, Path("/dev/null")):
        arguments = ["--cluster", str(tmp_path / "cluster"), "--report", str(report)]
        assert main("roll", "…", lambda *_, **__: pytest.fail("the job was begun"), arguments) == 2
        out, err = capfd.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("INVALID_REQUEST: --report: ")
        assert err.endswith("nothing was begun\n")
    before = sorted(tmp_path.iterdir())
    check_report_file(str(tmp_path / "new.json"))
    locked.write_text("old")
    dangling.unlink()
    dangling.symlink_to(locked)
    for each in (locked, dangling):
        check_report_file(str(each))
    assert (sorted(tmp_path.iterdir()), locked.read_text()) == (before, "old")


def test_a_report_that_fails_after_the_job_says_that_the_job_landed(tmp_path: Path) -> None:
    with pytest.raises(SparklogError) as raised:
        write_report(EMPTY_REPORT, str(tmp_path))
    assert (raised.value.exit_code, raised.value.landed) == (1, Landed.YES)
    assert "the job ran, and what it did stays" in raised.value.message


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "interrupted: what was committed stays"),
        (InvalidInput("it\nis wrong"), 2, "INVALID_REQUEST: it is wrong"),
        (ZeroDivisionError("x"), 1, "UNKNOWN_SERVER_ERROR: ZeroDivisionError: x; SPARKLOG_DEBUG=1 shows where"),
    ],
)
def test_whatever_ends_a_job_early_is_one_line(
    capfd: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    def run() -> int:
        raise error

    assert exit_code_of(run) == code
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(line)


def test_neither_sparks_errors_as_json_nor_ctrl_c_while_the_session_starts_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """py4j logs what breaks its calls, also while the handler of SIGINT can't be set: Spark sets its own at the end."""

    class Builder:
        def __getattr__(self, name: str) -> Callable[..., Builder]:
            return lambda *_: self

        def getOrCreate(self) -> None:  # noqa: N802
            for error in (ValueError(), KeyboardInterrupt()):
                try:
                    raise error
                except BaseException as raised:
                    logging.exception("%s while sending command.", type(raised).__name__)
            raise KeyboardInterrupt

    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
    for each in loggers:
        for name, value in (("level", logging.NOTSET), ("propagate", True), ("_cache", {})):
            monkeypatch.setattr(each, name, value)
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    monkeypatch.setattr(SparkSession, "builder", Builder())
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with pytest.raises(KeyboardInterrupt):
        job_session("roll")
    for each in loggers:
        each.error("an error of Spark's, as JSON")
    assert [each.getMessage() for each in caplog.records] == ["ValueError while sending command."]


@pytest.mark.spark
def test_a_source_that_is_found_is_not_registered_again(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.dataSource, "register", lambda _: pytest.fail("Spark warns that it was replaced"))
    register(spark)


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
    assert "replaced a statically registered" not in done.stderr + done.stdout
    assert json.loads(report.read_text())["done"]["records"] == 40
    with sparklog.connect(url) as cluster:
        assert cluster.read("t", partition=1).num_rows == 20
