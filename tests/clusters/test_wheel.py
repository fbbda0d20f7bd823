"""The wheel, installed by pip into an empty environment: the README runs on each Spark without the source."""

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

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("spark", [spark for spark in VERSIONS if spark != "3.5"])  # which `sparklog[spark]` takes
def test_the_readme_runs_on_the_installed_wheel(dist: Path, tmp_path: Path, spark: str) -> None:
    (wheel,), (jobs,) = dist.glob("*.whl"), dist.glob("sparklog-jobs-*.zip")
    environment = tmp_path / ".venv"
    try:
        install(wheel, environment, tmp_path, spark)
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


def install(wheel: Path, environment: Path, scratch: Path, spark: str) -> None:
    """As the README says. Without pins pip would take the newest of everything, also to build pyspark."""
    pins = scratch / "pins.txt"
    locks = (lock_of(spark), ROOT / "requirements" / "build.lock")
    # pip wants no hashes here: it would then ask for pins in the wheel itself.
    pins.write_text("".join(re.sub(r" \\\n +--hash=\S+", "", lock.read_text(encoding="utf-8")) for lock in locks))
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, f"sparklog[spark] @ {wheel.as_uri()}"], check=True, env=os.environ | {"PIP_CONSTRAINT": str(pins)}
    )
