"""The Spark session of a job: the one that spark-submit configured, or a local one. It is quiet and obeys Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def job_session(name: str, settings: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """The session that spark-submit configured, or a local one. Executors run this process's Python if none is set.

    Spark logs nothing unless spark.log.level is set: the job reports a failure itself, in one line. Sinks and sources
    log in Python, so their warnings still appear.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger().addFilter(_is_no_interrupt)
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from sparklog.spark import register

    builder: Any = SparkSession.builder.appName(f"sparklog {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    conf = SparkConf()
    if not conf.contains("spark.ui.showConsoleProgress"):
        builder = builder.config("spark.ui.showConsoleProgress", "false")  # jobs report their own progress
    if not conf.contains("spark.log.level"):
        builder = builder.config("spark.log.level", "OFF")
        for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # they print Spark's errors as JSON
            logging.getLogger(logger).setLevel(logging.CRITICAL)
    session: SparkSession = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupted)  # Spark's handler calls into the broken call
    register(session)
    return session


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """False for a log line about Ctrl-C: Py4J logs a traceback from the call that it interrupted."""
    return record.exc_info is None or not isinstance(record.exc_info[1], KeyboardInterrupt)


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Handle Ctrl-C; silence what the interrupted call into Spark would log."""
    logging.disable(logging.CRITICAL)
    raise KeyboardInterrupt
