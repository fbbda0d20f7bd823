"""A Spark without Delta Lake: the job says what is missing and how it is had."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidInput
from tests.spark.materialize.filled_tables import materialize

pytestmark = pytest.mark.spark


def test_a_session_without_delta_lake_is_refused(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", partitions=1)
    with pytest.raises(InvalidInput, match="--packages io"):
        materialize(spark, cluster, tmp_path / "d")
    assert not (tmp_path / "d").exists()
