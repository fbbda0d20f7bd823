"""The session of a job: quiet, and ours to interrupt."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from sparklog.spark import register
from sparklog.spark.session import job_session


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
