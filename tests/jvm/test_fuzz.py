"""Damaged objects and indexes, read by Java: never a wrong row, never an error but the two that it may raise.

Hostile ones, whose checksums are right: Python and Java read the same rows of them, or both refuse them.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.log.index import encode_index
from sparklog.log.stored_schema import HEADERS, RAW
from sparklog.spark.planner.plan_requests import PLAN_REQUESTS
from tests.client.compacting import mixed_log
from tests.client.mirrored_topic import MirroredTopic
from tests.jvm.hostile import Case, bomb, original_of, run, with_message
from tests.jvm.java_program import run_java
from tests.spark.columns.test_columns import records

LARGEST = {"zstd": 24 << 20, "lz4": 1 << 20}  # bytes of a value; LZ4 packs few into a byte


@pytest.mark.parametrize(
    "rounds", [2_000, pytest.param(100_000, marks=[pytest.mark.campaign, pytest.mark.timeout(3600)])]
)
def test_damage_gives_an_error_or_the_right_rows(tmp_path: Path, rounds: int) -> None:
    folder = objects(tmp_path / "log")
    output = fuzz(str(folder), "7", str(rounds))
    refused, unharmed, decoded = (int(part.split()[0]) for part in output.split(","))
    assert refused + unharmed == rounds
    assert refused > rounds // 2
    assert decoded > 0, "what a checksum would have refused was decoded as well"


@pytest.mark.parametrize(
    ("seeds", "count"),
    [
        (range(1), 400),
        pytest.param(range(100), 1_000, marks=[pytest.mark.campaign, pytest.mark.timeout(7200)]),
    ],
)
def test_python_and_java_read_or_refuse_the_same_hostile_objects(tmp_path: Path, seeds: range, count: int) -> None:
    """`count` objects for each seed."""
    for seed in seeds:
        folder = tmp_path / "hostile"
        # In a process of its own: without its checks, Python reads memory that is not its own, or ends with a signal.
        command = [sys.executable, "-m", "tests.jvm.hostile", str(folder), str(seed), str(count)]
        made = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        by_python = (folder / "hostile.txt").read_text().splitlines()
        assert made.returncode == 0, f"seed {seed}, case {by_python[-1:]}: {made.stderr[-2000:]}"
        by_java = fuzz(str(folder)).splitlines()
        different = [pair for pair in zip(by_python, by_java, strict=True) if pair[0] != pair[1]]
        assert not different, f"seed {seed}"
        assert count // 4 < sum(line.endswith("refused") for line in by_python) < count


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_python_and_java_read_the_largest_record_and_refuse_a_small_batch_that_would_take_more_memory(
    tmp_path: Path, compression: str
) -> None:
    """The bomb is right in all but its size: its buffers share one frame."""
    size = LARGEST[compression]
    headers = pa.array([[{"key": "h", "value": b""}]], HEADERS)
    columns = [[b""], [bytes(size)], headers, [0]]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, RAW.arrow, strict=True)], schema=RAW.arrow
    )
    large = original_of([batch], compression, RAW, 101)
    spoilt = with_message(large, 0, bomb(large.message(0), size))
    whole = Case(large.body, encode_index(large.index).to_pybytes(), large.slice, ["key", "value", "headers"])
    folder = tmp_path / "hostile"
    run(folder, [whole, Case(*spoilt, ["value"]), Case(*spoilt, ["key", "value", "headers"])])
    by_python = (folder / "hostile.txt").read_text().splitlines()
    assert by_python == fuzz(str(folder)).splitlines()
    assert [line.split()[1:2] + line.split()[3:] for line in by_python] == [["1"], ["1"], ["0", "refused"]]


def fuzz(*arguments: str) -> str:
    """Run Fuzz.java with these arguments, and return its output."""
    done = run_java("read.task.Fuzz", *arguments)
    print(done.stderr[-3000:], file=sys.stderr)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


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
        mirrored = MirroredTopic(cluster, name="mirrored").create()
        mirrored.append([3, 4, 9, *range(20, 320)], kinds=[0] * 100 + [1] * 100)
        options = {"cluster": str(folder), "subscribePattern": ".*", "maxBytesPerPartition": "1"}
        planned = PLAN_REQUESTS["plan_read"](msgspec.json.encode({"options": options}))
        for task in msgspec.json.decode(planned)["tasks"]:
            for range_ in task["ranges"]:
                lines += [msgspec.json.encode({**range_, "slices": [slice_]}) for slice_ in range_["slices"]]
    (folder / "ranges.json").write_bytes(b"\n".join(lines) + b"\n")
    return folder
