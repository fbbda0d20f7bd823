"""Where the packages of an extra are missing, the error names the line that installs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sparklog.host.extras import MODULES, Extra, extra_of, install_line, missing_modules

ROOT = Path(__file__).parents[2]
HIDE = "import sys; sys.modules[{module!r}] = None; from sparklog.cli.main import run; sys.exit(run({arguments!r}))"
AT_S3 = ["topic", "list", "--cluster", "s3://bucket/log"]
AT_HDFS = ["topic", "list", "--cluster", "hdfs://host:9000/log"]


@pytest.mark.parametrize(
    ("extra", "module", "arguments"),
    [
        ("s3", "botocore", AT_S3),
        ("s3", "s3fs", AT_S3),
        ("hdfs", "hdfs_native", AT_HDFS),
        ("gcs", "google.auth", ["topic", "list", "--cluster", "gs://bucket/log"]),
        ("azure", "azure.storage.blob", ["topic", "list", "--cluster", "abfs://container/log"]),
        *(("coordinator", module, ["coordinator", "--cluster", "CLUSTER"]) for module in MODULES["coordinator"]),
        ("spark", "pyspark", ["job", "compaction", "--cluster", "CLUSTER"]),
    ],
)
def test_a_hidden_module_is_named_with_the_line_that_installs_it(
    tmp_path: Path, extra: Extra, module: str, arguments: list[str]
) -> None:
    arguments = [str(tmp_path) if word == "CLUSTER" else word for word in arguments]
    done = subprocess.run(
        [sys.executable, "-c", HIDE.format(module=module, arguments=arguments)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert install_line(extra) in done.stderr
    assert module in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_modules_are_those_of_the_extras_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, modules in MODULES.items():
        packages = {re.split("[<>=]", wanted)[0].replace("-", "_") for wanted in extras[extra]}
        assert {module.replace(".", "_") for module in modules} == packages - {"uvloop"}, "uvicorn does without uvloop"


def test_an_address_says_which_extra_it_needs() -> None:
    extras = {"s3": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure", "hdfs": "hdfs", "file": None, "http": None}
    assert {scheme: extra_of(f"{scheme}://a/b") for scheme in extras} == extras


def test_no_other_file_writes_such_a_line() -> None:
    files = [path for path in (ROOT / "sparklog").rglob("*.py") if "pip install 'sparklog[" in path.read_text()]
    assert [path.name for path in files] == ["extras.py"]


def test_a_module_of_a_package_that_is_missing_is_missing_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "gcs", ("no_such_package.module", "requests"))
    assert missing_modules("gcs") == ["no_such_package.module"]
