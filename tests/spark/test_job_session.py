"""The session of a job: quiet, and ours to interrupt."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.spark import register
from sparklog.spark.job_session import _interrupted, job_session, start_if_yarn_waits
from tests.spark_classes import NO_FOLDER

JSON_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def test_neither_sparks_errors_as_json_nor_ctrl_c_while_the_session_starts_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """py4j logs what breaks its calls, also while the handler of SIGINT can't be set: Spark sets its own at the end."""

    class Builder:
        def __getattr__(self, name: str) -> Callable[..., Builder]:
            return lambda *_: self

        def getOrCreate(self) -> None:  # noqa: N802
            try:
                raise ValueError
            except ValueError as raised:
                logging.exception("%s while sending command.", type(raised).__name__)
            gateway = GatewayClient()
            monkeypatch.setattr(gateway, "_get_connection", lambda: Interrupted())
            gateway.send_command("a call")

    assert not {*JSON_LOGGERS} & {*logging.root.manager.loggerDict}
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    monkeypatch.setattr(SparkSession, "builder", Builder())
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with pytest.raises(KeyboardInterrupt):
        job_session("roll")
    for name in JSON_LOGGERS:
        PySparkLogger.getLogger(name).error("an error of Spark's, as JSON")
    assert [each.getMessage() for each in caplog.records] == ["ValueError while sending command."]
    assert logging.getLogger().filters == []


def test_a_logger_that_the_process_has_already_keeps_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    class Builder:
        def __getattr__(self, name: str) -> Callable[..., Builder]:
            return lambda *_: self

        def getOrCreate(self) -> None:  # noqa: N802
            raise KeyboardInterrupt

    monkeypatch.setattr(SparkSession, "builder", Builder())
    for name in JSON_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.ERROR)
    with pytest.raises(KeyboardInterrupt):
        job_session("roll")
    assert [logging.getLogger(name).level for name in JSON_LOGGERS] == [logging.ERROR] * 2


def test_ctrl_c_silences_py4j_until_it_is_handled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filters = [*logging.getLogger().filters]
    gateway = GatewayClient()
    monkeypatch.setattr(gateway, "_get_connection", lambda: Interrupted())
    try:
        gateway.send_command("the call that is interrupted")
    except KeyboardInterrupt:
        with suppress(Py4JError):
            monkeypatch.setattr(gateway, "_get_connection", lambda: Broken())
            gateway.send_command("the call whose connection it broke", retry=False)
        logging.getLogger().error("a line of ours")
    assert [each.getMessage() for each in caplog.records] == ["a line of ours"]
    assert logging.getLogger().filters == filters
    with suppress(Py4JError):
        gateway.send_command("a later call", retry=False)
    assert [each.getMessage() for each in caplog.records] == ["a line of ours", "Exception while sending command."]


class Interrupted:
    """A connection to Spark during whose call Ctrl-C comes."""

    socket = None

    def send_command(self, command: str) -> str:
        _interrupted(signal.SIGINT, None)


class Broken:
    """A connection to Spark that is not there any more."""

    def send_command(self, command: str) -> str:
        raise Py4JNetworkError

    def close(self, reset: bool) -> None:
        pass


PROGRAM = """
import io, logging, sys

class OwnLogger(logging.Logger):
    pass

def configuration():
    root = logging.getLogger()
    handlers = [(each, each.formatter, each.level, [*each.filters]) for each in root.handlers]
    mine = logging.getLogger("mine")
    of_mine = type(mine), mine.level, [*mine.handlers], mine.handlers[0].formatter, [*mine.filters], mine.propagate
    of_process = logging.getLoggerClass(), logging.getLogRecordFactory(), root.manager.disable, logging.lastResort
    return handlers, root.level, [*root.filters], root.disabled, of_mine, of_process

def configure(logger):
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.setLevel(logging.INFO)
    handler.addFilter(lambda record: True)
    logger.addHandler(handler)
    logger.addFilter(lambda record: True)
    logger.setLevel(logging.DEBUG if logger.name == "mine" else logging.ERROR)

logging.setLoggerClass(OwnLogger)
configure(logging.getLogger())
configure(logging.getLogger("mine"))
before = configuration()
import sparklog.spark, sparklog.spark.source, sparklog.spark.job_session, sparklog.spark.maintain.key_shuffle
assert configuration() == before, "the import"
spark = sparklog.spark.job_session.job_session("roll", {"spark.master": "local[1]", "spark.ui.enabled": "false"})
assert configuration() == before, "the session"
frame = spark.range(3).selectExpr("cast(id as string) as value")
frame.write.format("sparklog").mode("append").option("cluster", sys.argv[1]).option("topic", "t").save()
try:
    spark.sql("select no_such_column from range(1)")
except Exception as error:
    assert error.getQueryContext(), "wanted an error that pyspark logs"
assert configuration() == before, "the use"
assert type(logging.getLogger("a new one")) is OwnLogger
logging.getLogger("mine").info("a line of the user's")
assert [each.stream.getvalue() for each in logging.getLogger("mine").handlers] == ["a line of the user's\\n"]
"""


@pytest.mark.spark
def test_the_logging_of_a_process_is_its_own_before_and_after_spark_starts(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", partitions=1)
    quick = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path), "SPARK_CONF_DIR": str(NO_FOLDER)}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, cluster.connection.url], cwd=tmp_path, env=os.environ | quick, check=True
    )


@pytest.mark.spark
def test_a_source_that_is_found_is_not_registered_again(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.dataSource, "register", lambda _: pytest.fail("Spark warns that it was replaced"))
    register(spark)


def test_a_driver_that_yarn_runs_starts_spark_also_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.delenv("SPARK_YARN_STAGING_DIR", raising=False)
    start_if_yarn_waits(lambda: started.append("here"))  # type: ignore[arg-type, return-value]
    monkeypatch.setenv("SPARK_YARN_STAGING_DIR", "hdfs://staging")
    start_if_yarn_waits(lambda: started.append("in YARN"))  # type: ignore[arg-type, return-value]
    assert started == ["in YARN"]
