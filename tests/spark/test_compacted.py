"""A compacted log as DataFrames: exact ranges, split into tasks, and the offsets alone."""

from __future__ import annotations

import json

import pytest

from sparklog.client.cluster import Cluster
from tests.client.compacting import KEPT, mixed_log
from tests.spark.conftest import Read

pytestmark = pytest.mark.spark


def test_a_compacted_log_is_read_by_exact_ranges_in_tasks(cluster: Cluster, read: Read) -> None:  # M: S-03 S-04
    mixed_log(cluster)
    bounds = [json.dumps({"t": {"0": offset}}) for offset in (5, 47)]
    df = read("t", startingOffsets=bounds[0], endingOffsets=bounds[1], maxRecordsPerPartition=5)
    left = [offset for offset in KEPT if 5 <= offset < 47]
    assert df.rdd.getNumPartitions() == 3, "as many as its records need, not its offsets"
    assert [(row.offset, row.value.decode()) for row in df.collect()] == [(at, f"v{at}") for at in left]
    assert [row.offset for row in read("t", columns="offset").collect()] == KEPT
    shown = read(metadata="segments").select("start", "end", "records").orderBy("start")
    assert [tuple(row) for row in shown.collect()][:2] == [(0, 20, 6), (20, 40, 2)]
