"""The JARs that a Spark session needs for its peers, Spark's Kafka connector and Delta Lake, beside Spark's own.

python -m bench.peer_jars        prints those of Delta Lake as Spark wants them; exit code 1 if they can't be had
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from sparklog.core.errors import InvalidInput
from sparklog.spark.spark_versions import delta_package
from tests.servers.made_once import CannotFetch
from tests.servers.maven import fetch_jars

_CONNECTOR = "4.2.0"
_TOKENS = "4.1.0-preview1"  # the connector asks for a version that is not available
_OF_SPARK = (  # 50 MB and more that PySpark brings
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.scala-lang:scala-library",
)


def kafka_connector() -> list[Path]:
    """Raises CannotFetch."""
    tokens = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_CONNECTOR}"
    jars = fetch_jars("kafka-connector", [connector], without=[*_OF_SPARK, tokens])
    jars += fetch_jars("kafka-tokens", [f"{tokens}:{_TOKENS}"], without=[*_OF_SPARK, "org.apache.kafka:kafka-clients"])
    return beside(_jars_of_spark(), jars)


def delta() -> list[Path]:
    """Raises CannotFetch."""
    try:
        package = delta_package()
    except InvalidInput as error:
        raise CannotFetch(str(error)) from error
    return beside(_jars_of_spark(), fetch_jars("delta", [package], without=_OF_SPARK))


def beside(there: Sequence[Path], jars: Sequence[Path]) -> list[Path]:
    """Those of `jars` that are not `there` in any version: with two versions in a JVM, nobody knows which one runs."""
    artifacts = {_artifact(jar) for jar in there}
    return [jar for jar in jars if _artifact(jar) not in artifacts]


def _artifact(jar: Path) -> str:
    """The part of the name before the version: `kafka-clients` of `kafka-clients-3.9.2.jar`."""
    return re.sub(r"-\d+\.\d.*$", "", jar.name)


def _jars_of_spark() -> list[Path]:
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.submodule_search_locations is not None
    return sorted(Path(pyspark.submodule_search_locations[0], "jars").glob("*.jar"))


if __name__ == "__main__":
    try:
        print(",".join(map(str, delta())))
    except CannotFetch as error:
        sys.exit(str(error))
