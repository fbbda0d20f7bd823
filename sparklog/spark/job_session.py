"""The Spark session of a job: configured by spark-submit, or a local one. It is quiet, and Ctrl-C stops it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sparklog.spark import check_spark, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JSON_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def job_session(name: str, settings: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """Return the session that spark-submit configured, or a local one, with `settings` added.

    Executors run this process's Python unless PYSPARK_PYTHON names another. If spark.log.level is not set, Spark logs
    nothing, because the job itself reports a failure in one line. In that case, the two Python loggers that print
    Spark's errors as JSON are silenced too, unless this process has already used them. Warnings of sparklog's own
    sources and sinks still appear, because they are logged in Python. Raises InvalidInput without a Spark that sparklog
    supports.
    """
    check_spark()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName(f"sparklog {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    conf = SparkConf()
    if not conf.contains("spark.ui.showConsoleProgress"):
        builder = builder.config("spark.ui.showConsoleProgress", "false")  # jobs report their own progress
    if not conf.contains("spark.log.level"):
        builder = builder.config("spark.log.level", "OFF")
        _silence_new_json_loggers()
    with _without_interrupted_calls():
        session: SparkSession = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupted)  # Spark's own handler would call into the interrupted call
    register(session)
    return session


def start_if_yarn_waits(session: Callable[[], SparkSession]) -> None:
    """Start Spark by calling `session` if YARN runs this driver (cluster mode).

    YARN reports a driver that never starts Spark as failed, even if the job had no work.
    """
    if "SPARK_YARN_STAGING_DIR" in os.environ:
        session()


def _silence_new_json_loggers() -> None:
    """Silence the two loggers that print Spark's errors to stderr as JSON, unless they exist already.

    A logger that exists may have been configured, so it is not changed.
    """
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # Spark 3.5 logs nothing as JSON
        return

    for name in _JSON_LOGGERS:
        if name not in logging.root.manager.loggerDict:
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _without_interrupted_calls() -> Iterator[None]:
    """Inside the `with` block, which starts Spark, hide what Py4J logs about a call that Ctrl-C interrupts.

    After the block, the handler `_interrupted` has the same effect. It can be installed only once Spark has started.
    """
    logging.root.addFilter(_is_no_interrupted_call)
    try:
        yield
    finally:
        logging.root.removeFilter(_is_no_interrupted_call)


class _Interrupt(KeyboardInterrupt):
    """Raised by Ctrl-C. As long as this exception exists, Py4J's tracebacks are not logged.

    Ctrl-C interrupts one of Py4J's calls and breaks the connections of others, and Py4J would log each of them.
    """

    def __init__(self) -> None:
        logging.root.addFilter(_is_not_of_py4j)
        weakref.finalize(self, logging.root.removeFilter, _is_not_of_py4j)


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """The handler of SIGINT: raise _Interrupt."""
    raise _Interrupt


def _is_no_interrupted_call(record: logging.LogRecord) -> bool:
    interrupted = record.exc_info is not None and isinstance(record.exc_info[1], KeyboardInterrupt)
    return not interrupted or _is_not_of_py4j(record)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Logging filter: False for a record that Py4J logs through the root logger, which is the traceback of a call."""
    return record.module != "java_gateway"
