"""jobs/produce.py from the command line: exit codes, and errors on stderr."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sparklog
from sparklog.cli.records.produce_files import main
from sparklog.client.bootstrap import init_cluster

PROJECT = Path(__file__).parents[3]
DEAD_LETTERS = "--cluster {url} {file} --create --dry-run --on-bad-row dead-letter --dead-letter-topic"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("--topic t {file}", 2, "INVALID_REQUEST: no cluster is given"),
        ("--topic t --cluster {url}x {file}", 3, "CLUSTER_NOT_FOUND"),
        ("--topic t --cluster host:9092 {file}", 2, "is a Kafka address"),
        ("--topic t --cluster memory://m {file}", 2, "exists in one process"),
        ("--topic t! --cluster {url} {file}", 2, "INVALID_TOPIC_EXCEPTION"),
        ("--topic t --cluster {url} {file}", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("--topic t --cluster {url} {file}.none", 3, "RESOURCE_NOT_FOUND"),
        ("--topic t --cluster {url}", 2, "wanted a SOURCE"),
        ("--topic t --cluster {url} {file} --key a,,b", 2, "--key: wanted names separated by commas"),
        ("--topic t --cluster {url} {file} --option header", 2, "--option: wanted KEY=VALUE, found 'header'"),
        ("--topic t --cluster {url} {file} --partitions 3", 2, "apply only to a new topic: add --create"),
        ("--topic t --cluster {url} {file} --option sep=; --option sep=x", 2, "--option: sep is given twice"),
        (
            "--topic t --cluster {url} {file} --create --config retention.ms=1000 --config retention.ms=99",
            2,
            "--config: retention.ms is given twice",
        ),
        ("--topic t --cluster {url} {file} --create --config retention=1", 2, "INVALID_CONFIG"),
        ("--topic t --cluster {url} {file} --txn-app-id a", 2, "together, found only one"),
        ("--topic t --cluster {url} {file} --txn-app-id a --txn-version x", 2, "txnVersion"),
        ("--topic t --cluster {url} {file} --compression gzip", 2, "compression"),
        ("--cluster {url} {file}", 2, "Missing option '--topic'"),
        ("--topic t --cluster {url} {file} --create --partitions x", 2, "Invalid value for '--partitions'"),
        ("--topic t --cluster {url} {file} --format xml", 2, "--format: wanted csv, json, parquet, found 'xml'"),
        ("--topic t --cluster {url} {file} --on-bad-row keep", 2, "wanted fail, skip, dead-letter, found 'keep'"),
        ("--topic t --cluster {url} {file} --option mode=FAILFAST", 2, "--on-bad-row chooses"),
        ("--topic t --cluster {url} {file} --create --on-bad-row dead-letter", 2, "--dead-letter-topic together"),
        ("--topic t --cluster {url} {file} --format parquet --on-bad-row skip", 2, "applies to CSV and JSON files"),
        ("--topic t --cluster {url} {file} --create --report {url}", 2, "wanted a file, found the directory"),
        (
            "--topic t --cluster {url} {file} --create --report {url}/no/r.json",
            2,
            "r.json can't be written (No such file",
        ),
        ("--topic t --cluster {url} {file} --create --report {file}", 2, "a.csv, which belongs to"),
        ("--topic there --cluster {url} {file} --on-bad-row dead-letter --dead-letter-topic dead", 3, "topic 'dead'"),
        ("--topic new_there --cluster {url} {file} --create --dry-run", 2, "the existing topic 'new.there'"),
        ("--topic t --cluster {url} {file} --create --partitions 0 --dry-run", 2, "INVALID_PARTITIONS"),
        (f"--topic t {DEAD_LETTERS} de/ad", 2, "INVALID_TOPIC_EXCEPTION"),
        (f"--topic there {DEAD_LETTERS} new_there", 2, "the existing topic 'new.there'"),
        (f"--topic t.x {DEAD_LETTERS} t_x", 2, "collides"),
    ],
)
def test_mistakes_are_found_before_spark_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: str,
    code: int,
    message: str,
) -> None:
    monkeypatch.setattr("sparklog.spark.job_session.job_session", lambda name: pytest.fail("Spark was started"))
    url, file = tmp_path / "cluster", tmp_path / "a.csv"
    init_cluster(str(url))
    with sparklog.connect(str(url)) as cluster:
        for topic in ("there", "new.there"):
            cluster.create_topic(topic, partitions=1)
    file.write_text("a\n1\n")
    assert main(arguments.format(url=url, file=file).split()) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_help_lists_the_options_and_needs_neither_spark_nor_a_cluster() -> None:
    shown = subprocess.run(
        [sys.executable, "jobs/produce.py", "--help"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    assert "Usage: spark-submit jobs/produce.py" in shown
    for option in ("SOURCE", "--key-expr", "--timestamp", "--create", "--txn-version", "--dry-run", "--report"):
        assert option in shown
    for promise in ("--on-bad-row fail|skip|dead-letter", "as Python's csv module reads it", "multiLine=false lets"):
        assert promise in shown
