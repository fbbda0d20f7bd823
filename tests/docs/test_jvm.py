"""docs/jvm.md: its programs in Java, Scala and SQL, compiled and run by its own commands in a clean shell."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from scripts.build_jar import javac
from tests.docs.clean_shell import in_clean_shell
from tests.docs.markdown_pages import ROOT
from tests.servers.maven import SHORT_LIVED_JVM

_PAGE = (ROOT / "docs" / "jvm.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"```(java|scala|sql|bash)\n(.*?)```", re.DOTALL)
_DEFAULTS = """
spark.master                     local[2]
spark.ui.enabled                 false
spark.sql.shuffle.partitions     2
spark.sql.catalogImplementation  in-memory
"""  # a Spark that starts soon
_FILES = {"java": "Orders.java", "scala": "Newest.scala", "sql": "orders.sql"}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.campaign  # nearly a minute of processor time: two compilers, three programs with a Spark of their own
@pytest.mark.timeout(900)
@pytest.mark.skipif(javac() is None, reason="no javac: this machine has only a Java runtime")
def test_the_programs_of_the_page_compile_and_run(tmp_path: Path) -> None:
    commands = f'export PATH="{Path(sys.prefix, "bin")}:{Path(javac() or "").parent}:$PATH"\n'
    commands += "unset PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON\n"
    commands += f'export JAVA_TOOL_OPTIONS="{" ".join(SHORT_LIVED_JVM)}" SPARK_CONF_DIR="$PWD"\n'
    (tmp_path / "spark-defaults.conf").write_text(_DEFAULTS, encoding="utf-8")
    for kind, block in _BLOCK.findall(_PAGE):
        if kind == "bash":
            commands += block
        else:
            assert f"`{_FILES[kind]}`" in _PAGE
            (tmp_path / _FILES[kind]).write_text(block, encoding="utf-8")
    printed = in_clean_shell(tmp_path, commands).splitlines()
    assert "in the range: 15" in printed
    assert "7: ORDER 997 at offset" in "\n".join(printed)
    assert [line for line in printed if line == "a late order"]
    counts = [line.split("\t") for line in printed if re.fullmatch(r"\d\t\d+\t\d+", line)]
    assert sum(int(records) for _, records, _ in counts) == 1001
    assert all(int(records) == int(newest) + 1 for _, records, newest in counts)
