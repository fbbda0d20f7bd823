"""The class archive of Spark, which most of its JVMs in tests can read.

A SPARK_CONF_DIR that holds anything keeps them from it, as it stands first on Spark's class path: NO_FOLDER is one that
does not exist.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.servers.class_archives import new_archive, short_lived
from tests.spark_home import spark_home

NO_FOLDER = Path("/nonexistent/sparklog-tests")

# What most tests use. Each further class makes the archive larger, and writing it takes 20 seconds as it is.
_PROGRAM = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.memory", "768m").config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = spark.range(100).selectExpr("id", "cast(id as string) as key")
rows.mapInArrow(lambda batches: batches, rows.schema).write.json(sys.argv[1])
spark.read.json(sys.argv[1]).groupBy("key").count().collect()
spark.stop()
gateway = SparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()  # the JVM ends, and writes its archive
gateway.proc.wait()
"""


def short_lived_spark() -> list[str]:
    """Options for the JVM of a Spark that ends after a minute or so, with the archive as soon as it is written.

    Java does not know TMPDIR, and what its libraries unpack stays if it is killed.
    """
    return [*short_lived("spark", _jars()), f"-Djava.io.tmpdir={tempfile.gettempdir()}"]


def write_spark_archive() -> None:
    """Write the archive if there is none for this Spark and this Java. Raises CalledProcessError."""
    with new_archive("spark", _jars()) as options, tempfile.TemporaryDirectory(prefix="sparklog-classes-") as work:
        if options is not None:
            subprocess.run(
                [sys.executable, "-c", _PROGRAM, f"{work}/rows"],
                check=True,
                cwd=work,
                env=os.environ
                | {
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_CONF_DIR": str(NO_FOLDER),
                    "SPARK_HOME": str(spark_home()),
                    "SPARK_LOCAL_DIRS": work,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_SUBMIT_OPTS": " ".join(options),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )


@functools.cache
def _jars() -> tuple[Path, ...]:
    return tuple(sorted((spark_home() / "jars").iterdir()))
