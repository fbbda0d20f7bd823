"""A standalone cluster of Spark, whose workers have a Python without packages, from the artefacts alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.page import Submitting, blocks
from tests.servers.s3_servers import free_port

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


@pytest.mark.timeout(1_200)
def test_a_standalone_cluster_runs_from_the_artefacts(dist: Path, tmp_path: Path) -> None:
    submitting = Submitting(tmp_path, dist, (tmp_path / "log").as_uri())
    (start,) = blocks("Standalone")
    submitting.run_all(start, instead={"7077": str(free_port())})
