"""The JAR with which Spark reads and writes records in Java. `make setup` and `make dist` build it from jvm/."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparklog.core.errors import InvalidInput, InvalidOption
from sparklog.host.java import OLDEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("sparklog")

_JAR: Final = Path(__file__).with_name("sparklog.jar")


def jar_path() -> Path:
    """Return the path of the JAR. Raises InvalidInput if this installation has no JAR."""
    if not _JAR.is_file():
        raise InvalidInput(
            f"wanted {_JAR}, found none: sparklog was installed from sources on a machine without javac (a JDK 17 or "
            "newer), or comes by --py-files; install the wheel, or install a JDK and run make setup, or start Spark "
            "with --jars and the JAR of another installation. Without the JAR, Python reads, but not in Spark 3.5"
        )
    return _JAR


def add_jar(spark: SparkSession) -> None:
    """Add sparklog's JAR to this session, so that `format("sparklog")` reads and writes in Java from then on.

    It has the same effect as starting Spark with `--jars $(sparklog jar)`. Calling it twice is harmless. Logs a warning
    if a Python `udf` would hang on what Java reads. Raises InvalidInput if this installation has no JAR.
    """
    path = str(jar_path())
    advice = function_advice(lambda name: spark.conf.get(name, None))
    if advice is not None:
        log.warning("%s", advice)
    if hasattr(spark, "addArtifacts") and not hasattr(spark, "_jsparkSession"):  # a client of Spark Connect
        spark.addArtifacts(path)
        return
    spark.sql(f"ADD JAR '{path}'")


def add_jar_unless_there(spark: SparkSession) -> None:
    """Add sparklog's JAR to this session, unless it was started with it. It is what serves Spark 3.5.

    Raises InvalidInput if this installation has no JAR, if the driver's Java is older than the JAR's, or for a client
    of Spark Connect: only its server knows whether it has the JAR.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise InvalidInput(
            f"wanted Spark 4.0 or newer behind Spark Connect, found {spark.version}: start its server with --jars and "
            "the file that `sparklog jar` names; then no call is needed"
        )
    classes = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if classes.getResource("io/sparklog/SparklogSource.class") is not None:
        return
    java = int(jvm.java.lang.System.getProperty("java.specification.version").removeprefix("1."))
    if java < OLDEST:
        raise InvalidInput(f"wanted Java {OLDEST} or newer in the driver and the executors, found Java {java}")
    add_jar(spark)


def function_advice(setting: Callable[[str], str | None]) -> str | None:
    """Return what to set so that a Python `udf` does not hang in this Spark; None if nothing needs to be set.

    `setting` returns the value of a setting of Spark, or None.
    """
    from sparklog.spark.spark_versions import HANGING_UDF_SETTING

    if HANGING_UDF_SETTING is None or setting(HANGING_UDF_SETTING) == "false":
        return None
    return f"in Spark 4.2.0, a Python udf hangs on columns, also those of Parquet: set {HANGING_UDF_SETTING}=false"


def check_reader(reader: str) -> None:
    """Raise InvalidOption if the option `reader` is columns, which requires Java. Call this before Python reads."""
    if reader == "columns":
        raise InvalidOption(
            "reader: wanted columns, found that Java can't read this: either sparklog's JAR is not in this session "
            "(start Spark with --jars $(sparklog jar), or call sparklog.spark.add_jar(spark)), or it is no read of "
            "records, or Spark has no file system for one of the stores; reader=auto reads by Python instead"
        )
