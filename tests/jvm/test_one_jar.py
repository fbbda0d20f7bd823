"""The JAR is the same for each Spark and each Scala: only their public classes that all have are used."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyspark
import pytest

from scripts.build_jar import ROOT, build, javac
from tests.servers.maven import fetch_jars

SCALA_2_13 = "org.apache.spark:spark-sql_2.13:3.5.9"  # pyspark 3.5 has the JARs of Scala 2.12


@pytest.mark.campaign
@pytest.mark.timeout(1_200)
def test_each_spark_gives_the_same_jar(tmp_path: Path) -> None:
    """Those of Maven, and those whose environments are there (make test SPARK=3.5)."""
    if javac() is None:
        pytest.skip("no javac: this machine has only a Java runtime")
    paths = {
        "3.5 with Scala 2.13": os.pathsep.join(map(str, fetch_jars("spark-3.5-scala-2.13", [SCALA_2_13]))),
        pyspark.__version__: f"{Path(pyspark.__file__).parent}/jars/*",
    }
    for jars in (ROOT / ".cache" / "sparks").glob("*/lib/python*/site-packages/pyspark/jars"):
        paths[str(jars)] = f"{jars}/*"
    digests = {}
    for name, path in paths.items():
        build(tmp_path / "built.jar", path)
        digests[name] = hashlib.sha256((tmp_path / "built.jar").read_bytes()).hexdigest()
    assert len(set(digests.values())) == 1, digests
