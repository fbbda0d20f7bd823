"""The JAR with which Spark reads and writes records in Java. `make setup` and `make dist` build it from jvm/."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparklog.core.errors import InvalidInput, InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("sparklog")

_JAR: Final = Path(__file__).with_name("sparklog.jar")


def jar_path() -> Path:
    """Return the path of the JAR. Raises InvalidInput if this installation has no JAR."""
    if not _JAR.is_file():
        raise InvalidInput(
            f"wanted {_JAR}, found none: sparklog was installed from sources on a machine without javac (a JDK 17 or "
            "newer); install the wheel, or install a JDK and run make setup. Without the JAR, Python reads"
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
