"""The wheel alone, by --py-files, where its packages are installed and it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters.page import SITE, Submitting, blocks, link_packages

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


@pytest.mark.timeout(600)
def test_jobs_run_by_the_wheel_alone(dist: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "python")], check=True)
    link_packages(tmp_path / "python" / SITE)
    submitting = Submitting(tmp_path, dist, (tmp_path / "log").as_uri())
    (begin,), (start,), (fill, jobs) = map(blocks, ("On the machine that submits", "By --py-files", "The jobs"))
    submitting.run(begin, start, fill, jobs, instead={"/opt/python": str(tmp_path / "python")})
    submitting.check("orders")
