"""The home for Spark that docs/streams.md makes: its Python processes import the installed pyspark, not a ZIP file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.spark.conftest import PROJECT
from tests.spark_classes import NO_FOLDER

_PROGRAM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
def home(_):
    import pyspark
    return pyspark.__file__
print("home", spark.sparkContext.parallelize([0], 1).map(home).first())
"""


def test_a_home_without_the_zip_file_lets_workers_import_the_installed_spark(tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "streams.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    own = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable}
    environment = {**own, "HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(NO_FOLDER)}
    if "JAVA_HOME" in os.environ:
        environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
    ended = subprocess.run(
        ["bash", "-ec", f"{script}python -c '{_PROGRAM}'"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (home,) = re.findall(r"^home (.*)$", ended.stdout, re.MULTILINE)
    assert ".zip" not in home
