"""Damaged objects and indexes, read by Java: never a wrong row, never an error but the two that it may raise."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import msgspec
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.spark.planner.plan_requests import PLAN_REQUESTS
from tests.client.compacting import mixed_log
from tests.jvm.java_program import run_java
from tests.spark.columns.test_columns import records


@pytest.mark.parametrize(
    "rounds", [2_000, pytest.param(100_000, marks=[pytest.mark.campaign, pytest.mark.timeout(3600)])]
)
def test_damage_gives_an_error_or_the_right_rows(tmp_path: Path, rounds: int) -> None:
    folder = objects(tmp_path / "log")
    done = run_java("Fuzz", str(folder), "7", str(rounds))
    print(done.stdout, done.stderr[-3000:], file=sys.stderr)
    assert done.returncode == 0
    refused, unharmed, decoded = (int(part.split()[0]) for part in done.stdout.split(","))
    assert refused + unharmed == rounds
    assert refused > rounds // 2
    assert decoded > 0, "what a checksum would have refused was decoded as well"


def objects(folder: Path) -> Path:
    """A cluster with small objects of each kind, and the plan of each slice, in the folder of its one store."""
    init_cluster(str(folder))
    lines = []
    with sparklog.connect(str(folder)) as cluster:
        for compression in ("zstd", "lz4", "none"):
            cluster.create_topic(compression, partitions=2)
            for seed in range(2):
                rows = records(random.Random(seed), 60 if seed else 600)
                cluster.append(compression, rows, compression=compression)
        mixed_log(cluster)
        options = {"cluster": str(folder), "subscribePattern": ".*", "maxBytesPerPartition": "1"}
        planned = PLAN_REQUESTS["plan_read"](msgspec.json.encode({"options": options}))
        for task in msgspec.json.decode(planned)["tasks"]:
            for range_ in task["ranges"]:
                lines += [msgspec.json.encode({**range_, "slices": [slice_]}) for slice_ in range_["slices"]]
    (folder / "ranges.json").write_bytes(b"\n".join(lines) + b"\n")
    return folder
