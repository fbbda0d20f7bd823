"""examples/stream_job.py: every order is in one of the topics, once."""

from __future__ import annotations

import runpy
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from tests.spark.conftest import PROJECT
from tests.spark.stream.test_streams import values

pytestmark = pytest.mark.spark

VALID = [b'{"id": 1, "customer": "anna", "amount": 9.5}', b'{"id": 2, "customer": "ben", "amount": 1}']
REJECTED = [b'{"id": 3, "amount": -1}', b"no order"]


def test_orders_are_sorted_out_once(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    for topic in ("orders", "valid-orders", "rejected-orders"):
        cluster.create_topic(topic, partitions=1)
    main = runpy.run_path(str(PROJECT / "examples" / "stream_job.py"))["main"]
    arguments = ["--cluster", cluster.connection.url, "--checkpoint", str(tmp_path / "checkpoint")]
    for rows in (VALID[:1] + REJECTED[:1], VALID[1:] + REJECTED[1:]):
        cluster.append("orders", pa.table({"value": rows}))
        main(arguments)
    assert [values(cluster, topic) for topic in ("valid-orders", "rejected-orders")] == [VALID, REJECTED]
    assert cluster.describe_group("sorting").lag == 0
