"""The Spark session of a job: the one that spark-submit configured, or a local one, quiet and ended by Ctrl-C."""

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
    """The session that spark-submit configured, or a local one; executors run this process's Python if none is set.

    Spark itself says nothing unless it is told a spark.log.level: what fails is told by the job, in a line. Sinks and
    sources log in Python, so their warnings are seen all the same.
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
        builder = builder.config("spark.ui.showConsoleProgress", "false")  # jobs tell how far they are
    if not conf.contains("spark.log.level"):
        builder = builder.config("spark.log.level", "OFF")
        for each in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # Spark's errors, as JSON
            logging.getLogger(each).setLevel(logging.CRITICAL)
    session: SparkSession = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupted)  # in the place of Spark's, which calls into the call that it breaks
    register(session)
    return session


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Whether a log line is about anything but Ctrl-C, of which py4j logs a traceback from the call that it broke."""
    return record.exc_info is None or not isinstance(record.exc_info[1], KeyboardInterrupt)


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Ctrl-C: what the broken call into Spark logs is no news."""
    logging.disable(logging.CRITICAL)
    raise KeyboardInterrupt
