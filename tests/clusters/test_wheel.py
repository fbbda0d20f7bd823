"""The wheel, installed by the README's lines into an empty environment: its snippets run on each Spark there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters.artefacts import ROOT
from tests.docs.readme_snippets import check_snippets
from tests.spark_versions import lock_of
from tests.sparks import VERSIONS

README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPET = re.compile(r"```python\n(.*?)```", re.DOTALL)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("spark", [spark for spark in VERSIONS if spark != "3.5"])  # which `sparklog[spark]` takes
def test_the_readme_runs_on_the_installed_wheel(dist: Path, tmp_path: Path, spark: str) -> None:
    (jobs,) = dist.glob("sparklog-jobs-*.zip")
    environment = tmp_path / ".venv"
    try:
        install(dist, environment, tmp_path, spark)
        shown = "import pyspark, sparklog; print(sparklog.__file__, pyspark.__version__)"
        ran = subprocess.run(
            [environment / "bin" / "python", "-c", shown], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        place, version = ran.stdout.split()
        assert Path(place).is_relative_to(environment)
        assert version.startswith(f"{spark}.")
        shutil.unpack_archive(jobs, tmp_path)
        check_snippets(tmp_path)
    finally:
        shutil.rmtree(environment, ignore_errors=True)  # 900 MB


def test_the_line_without_spark_installs_what_needs_none(dist: Path, tmp_path: Path) -> None:
    environment = tmp_path / ".venv"
    install(dist, environment, tmp_path, VERSIONS[-1], "sparklog")
    snippet = SNIPPET.findall(README)[0].replace("/tmp/sparklog-readme", f"{tmp_path}/cluster")
    ran = subprocess.run([environment / "bin" / "python", "-c", snippet], check=True, capture_output=True, text=True)
    assert "[b'2 cups', b'1 spoon']" in ran.stdout


def install(dist: Path, environment: Path, scratch: Path, spark: str, package: str = "sparklog[spark]") -> None:
    """Run the README's line for this package where dist/ is what `make dist` has made.

    Without pins pip would take the newest of everything, also to build pyspark.
    """
    (line,) = re.findall(rf'^(pip install "{re.escape(package)} @ [^"]+")', README, re.MULTILINE)
    (scratch / "dist").symlink_to(dist)
    pins = scratch / "pins.txt"
    locks = (lock_of(spark), ROOT / "requirements" / "build.lock")
    # pip wants no hashes here: it would then ask for pins in the wheel itself.
    pins.write_text("".join(re.sub(r" \\\n +--hash=\S+", "", lock.read_text(encoding="utf-8")) for lock in locks))
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    own = {"PATH": f"{environment}/bin{os.pathsep}{os.environ['PATH']}", "PIP_CONSTRAINT": str(pins), "PIP_QUIET": "1"}
    subprocess.run(["bash", "-ec", line], cwd=scratch, check=True, env=os.environ | own)
