"""The JAR is the same for each Spark and each Scala, and a program in Java runs with it on all that are here."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from scripts.build_jar import ROOT, build, javac
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from tests.docs.markdown_pages import ROOT as PROJECT
from tests.jar import jar, java
from tests.jvm.java_program import OPENED
from tests.servers.maven import SHORT_LIVED_JVM
from tests.spark_home import jars_of_scala_2_13


def class_paths() -> dict[str, str]:
    """The classes of Spark: those of Maven, and those whose environments are there (make test SPARK=3.5)."""
    paths = {
        "3.5 with Scala 2.13": os.pathsep.join(map(str, jars_of_scala_2_13())),
        pyspark.__version__: f"{Path(pyspark.__file__).parent}/jars/*",
    }
    for jars in (ROOT / ".cache" / "sparks").glob("*/lib/python*/site-packages/pyspark/jars"):
        paths[str(jars)] = f"{jars}/*"
    return paths


@pytest.mark.campaign
@pytest.mark.timeout(1_200)
def test_the_program_of_the_page_runs_on_each(tmp_path: Path) -> None:
    """That of docs/jvm.md: a batch is written once, an exact range is read, and a stream writes each record once."""
    compiler = javac()
    if compiler is None:
        pytest.skip("no javac: this machine has only a Java runtime")
    (program,) = re.findall(r"```java\n(.*?)```", (PROJECT / "docs" / "jvm.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "Orders.java").write_text(program, encoding="utf-8")
    for number, (name, path) in enumerate(class_paths().items()):
        classes, url = tmp_path / f"classes-{number}", f"file://{tmp_path}/cluster-{number}"
        subprocess.run([compiler, "-cp", path, "-d", str(classes), str(tmp_path / "Orders.java")], check=True)
        init_cluster(url)
        with connect(url) as cluster:
            for topic in ("orders", "shouted"):
                cluster.create_topic(topic, partitions=3)
        settings = ("-Dspark.master=local[2]", "-Dspark.ui.enabled=false", f"-Dspark.sparklog.python={sys.executable}")
        class_path = os.pathsep.join([str(classes), str(jar()), path])
        ran = subprocess.run(
            [java(), *SHORT_LIVED_JVM, *OPENED, *settings, "-cp", class_path, "Orders", url],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, (name, ran.stderr)
        assert "in the range: 15" in ran.stdout, name
        with connect(url) as cluster:
            assert cluster.describe("shouted").records == 1000, name


@pytest.mark.campaign
@pytest.mark.timeout(1_200)
def test_each_spark_gives_the_same_jar(tmp_path: Path) -> None:
    if javac() is None:
        pytest.skip("no javac: this machine has only a Java runtime")
    digests = {}
    for name, path in class_paths().items():
        build(tmp_path / "built.jar", path)
        digests[name] = hashlib.sha256((tmp_path / "built.jar").read_bytes()).hexdigest()
    assert len(set(digests.values())) == 1, digests
