"""Damaged objects and indexes, read by Java: never a wrong row, never an error but the two that it may raise."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pyspark
import pytest

import sparklog
from scripts.build_jar import javac
from sparklog.client.bootstrap import init_cluster
from sparklog.spark.planner.plan_requests import PLAN_REQUESTS
from tests.client.compacting import mixed_log
from tests.jar import jar, java
from tests.spark.columns.test_columns import records

FUZZ = Path(__file__).with_name("Fuzz.java")
JARS = Path(pyspark.__file__).parent / "jars"
OPENED = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.nio", "sun.nio.ch", "java.util")]


@pytest.mark.parametrize(
    "rounds", [2_000, pytest.param(100_000, marks=[pytest.mark.campaign, pytest.mark.timeout(3600)])]
)
def test_damage_gives_an_error_or_the_right_rows(tmp_path: Path, rounds: int) -> None:
    folder = objects(tmp_path / "log")
    classes = tmp_path / "classes"
    compiler = javac()
    path = os.pathsep.join([str(jar()), f"{JARS}/*"])
    assert compiler is not None
    subprocess.run([compiler, "-nowarn", "-cp", path, "-d", str(classes), str(FUZZ)], check=True)
    command = [java(), "-Xmx512m", *OPENED, "-cp", f"{classes}{os.pathsep}{path}", "io.sparklog.Fuzz"]
    done = subprocess.run([*command, str(folder), "7", str(rounds)], capture_output=True, text=True, timeout=3500)
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
