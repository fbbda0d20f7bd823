"""Where no Spark is installed, or one that is too old: everything works that starts none, the rest says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.spark.conftest import PROJECT

Run = Callable[..., subprocess.CompletedProcess[str]]
INSTALL = "pip install 'sparklog[spark]'"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with all that is installed here but Spark."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith(("pyspark", "py4j", "__pycache__")) and package.suffix != ".pth":
            (folder / package.name).symlink_to(package)
    return folder


@pytest.fixture
def run(packages: Path, tmp_path: Path) -> Run:
    """run("topic", "list", given="") -> the end of this sparklog command in a Python with these packages alone."""

    def sparklog(
        *arguments: str, given: str = "", program: Sequence[str] = ("-m", "sparklog")
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", *program, *arguments, "--cluster", str(tmp_path / "cluster")],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{PROJECT}{os.pathsep}{packages}", "HOME": str(tmp_path)},
            cwd=tmp_path,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )

    return sparklog


def test_what_starts_no_spark_needs_none(run: Run) -> None:
    assert run("cluster", "init").returncode == 0
    assert run("topic", "create", "t", "--partitions", "1").returncode == 0
    assert run("produce", "t", given="a\nb\n").returncode == 0
    assert run("consume", "t", "--offset", "start", "--num", "2").stdout.split() == ["a", "b"]
    for words in (["topic", "describe", "t"], ["cluster", "health"], ["chain", "tail"], ["job", "roll", "--dry-run"]):
        end = run(*words)
        assert end.returncode in (0, 5), end.stderr
        assert "pyspark" not in end.stdout + end.stderr


def test_what_starts_spark_says_how_it_is_installed(run: Run, tmp_path: Path) -> None:
    assert run("cluster", "init").returncode == 0
    assert run("topic", "create", "t", "--partitions", "1").returncode == 0
    assert run("produce", "t", given="a\n").returncode == 0
    rows = tmp_path / "rows.csv"
    rows.write_text("a\n1\n")
    for end in (
        run("job", "roll", "--all"),
        run("job", "compaction"),
        run("job", "materialize", "--topic", "t", "--table", str(tmp_path / "delta")),
        run("--topic", "t", str(rows), program=[str(PROJECT / "jobs" / "produce.py")]),
    ):
        assert (end.returncode, end.stdout) == (2, ""), end.stderr
        assert f"wanted Spark 3.5 or newer in {sys.executable}" in end.stderr
        assert f"found none (No module named 'pyspark'): {INSTALL}" in end.stderr


def test_an_older_spark_is_refused_by_name(packages: Path, run: Run) -> None:
    """Spark 3.4, of which only the version matters here: it has no function call_function."""
    (packages / "pyspark" / "sql").mkdir(parents=True)
    (packages / "pyspark" / "__init__.py").write_text('__version__ = "3.4.4"\n')
    (packages / "pyspark" / "sql" / "__init__.py").write_text("Column = DataFrame = DataFrameReader = None\n")
    (packages / "pyspark" / "sql" / "functions.py").touch()
    code = "import sparklog.spark; sparklog.spark.register(None)"
    end = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{PROJECT}{os.pathsep}{packages}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "found pyspark 3.4.4 (cannot import name 'call_function'" in end.stderr.splitlines()[-1], end.stderr
