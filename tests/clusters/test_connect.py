"""A Spark Connect server with the wheel, whose clients have neither it nor Java, and executors of its own."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from tests.clusters.page import EXPIRE, SITE, Submitting, blocks, link_packages, round_trip
from tests.servers.s3_servers import free_port

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


@pytest.mark.timeout(1_200)
def test_thin_clients_of_a_connect_server_read_and_write(dist: Path, tmp_path: Path) -> None:
    """pip gets no index: what the wheel needs is already in the server's environment, and Connect's in the client's."""
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    for environment in ("server", "client"):
        link_packages(tmp_path / environment / SITE)
    submitting = Submitting(tmp_path, dist, (tmp_path / "log").as_uri())
    (begin,) = blocks("On the machine that submits")
    server, client, classic = blocks("Spark Connect")
    fill, jobs = blocks("The jobs")
    without_index = "export PIP_NO_INDEX=1 PIP_NO_DEPS=1\n"
    thin = "if client/bin/python -c 'import sparklog' 2> thin.log; then exit 1; fi\n"
    thin += 'export SUBMIT="env -u SPARK_HOME -u PYSPARK_PYTHON PATH=/usr/bin:/bin client/bin/python"\n'
    passed = round_trip("passed", place="/server/lib/")
    instead = {"15002": str(free_port()), "python3.11": SITE.parts[1], "==4.2.0": f"=={pyspark.__version__}"}
    scripts = (begin, without_index, server, classic, fill, client, thin, passed, classic, jobs, EXPIRE)
    printed = submitting.run(*scripts, instead=instead)
    assert "all is well" in printed, printed[-5000:]
    assert "+-----" in printed
    submitting.check("orders", expired="passed")
