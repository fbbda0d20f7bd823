"""A SPARK_HOME for tests: pyspark's own, but for its copy of pyspark in a ZIP file.

Spark puts that ZIP before everything else on the path of its Python workers, and Python keeps no byte code for it: each
worker would compile pyspark anew, which takes 0.7 s of processor time. Without it they import the installed one.

With `SCALA=2.13` in the environment it has the JARs of Spark 3.5 for that Scala (make test SPARK=3.5 SCALA=2.13).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path

from tests.servers.maven import fetch_jars
from tests.sparks import SPARK

_CACHE = Path(__file__).parent.parent / ".cache"
SCALA_OF_3_5 = os.environ.get("SCALA") or "2.12"  # which pyspark 3.5 brings


def jars_of_scala_2_13() -> list[Path]:
    """Those of Spark 3.5. Raises CannotFetch."""
    return fetch_jars("spark-3.5-scala-2.13", ["org.apache.spark:spark-sql_2.13:3.5.9"])


def spark_home() -> Path:
    """The folder, made when it is first asked for. Several processes may ask at once."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    installed = Path(found.origin).parent
    parts = sorted(part for part in installed.iterdir() if part.name not in ("python", "work", "__pycache__", "jars"))
    parts.append(jars_of_scala_2_13()[0].parent if (SPARK, SCALA_OF_3_5) == ((3, 5), "2.13") else installed / "jars")
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]
    home = _CACHE / f"spark-home-{digest}"
    if not home.is_dir():
        _CACHE.mkdir(exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".spark-home-", dir=_CACHE))
        for part in parts:
            (work / ("jars" if part is parts[-1] else part.name)).symlink_to(part)
        try:
            work.rename(home)
        except OSError:  # another process was first
            for link in work.iterdir():
                link.unlink()
            work.rmdir()
    return home
