"""YARN and HDFS, whose machines have a Python without packages, from the artefacts alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.page import EXPIRE, Submitting, blocks, round_trip
from tests.servers.hadoop import Hadoop
from tests.servers.made_once import CannotFetch
from tests.servers.yarn import Yarn, yarn_jars

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


@pytest.mark.timeout(2_400)
def test_yarn_runs_from_the_artefacts_in_client_and_in_cluster_mode(hadoop: Hadoop, dist: Path, tmp_path: Path) -> None:
    """The driver is first on the machine that submits, then in the cluster."""
    try:
        yarn_jars()
    except CannotFetch as error:
        pytest.skip(f"this machine can't fetch YARN: {error}")
    submitting = Submitting(tmp_path, dist, f"{hadoop.url}/log")
    (begin,), (client, in_cluster) = blocks("On the machine that submits"), blocks("YARN")
    fill, jobs = blocks("The jobs")
    with Yarn(tmp_path / "yarn", hadoop.url) as yarn:
        instead = {"/etc/hadoop/conf": str(yarn.conf)}
        try:
            scripts = (begin, client, fill, round_trip("passed"), in_cluster, round_trip("again"), jobs, EXPIRE)
            printed = submitting.run(*scripts, instead=instead)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{yarn.outputs()}") from None
        assert printed.count("all is well") == 1, printed[-5000:]
        assert "all is well" in yarn.outputs("stdout")  # of the driver in the cluster
    submitting.check("orders", "again", expired="passed")
