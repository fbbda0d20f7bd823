"""The Python consumer, beside bare loops over the same Arrow files.

python -m bench.consumer        prints a line per figure
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import sparklog
from bench.paired import Comparison, compare
from sparklog.client.bootstrap import init_cluster
from sparklog.client.consumer.consumer import Consumer

RECORDS, APPENDS, PARTITIONS, VALUE_BYTES = 1_000_000, 10, 4, 100
ROUNDS = 5
POLLED = 500  # records of a call, Kafka's default


def consumer(folder: Path, records: int = RECORDS, *, rounds: int = ROUNDS) -> list[Comparison]:
    """Records that are there already, read by a member of a group that commits by itself."""
    root = folder / "consumer"
    _write(root, records)
    files = sorted((root / "append").rglob("*.arrow"))
    what = f"Python consumer, {records:,} x {VALUE_BYTES} B, {PARTITIONS} partitions: "
    with sparklog.connect(str(root)) as cluster:
        runs = 0

        def consumed(read: Callable[[Consumer], int]) -> Callable[[], None]:
            def run() -> None:
                nonlocal runs
                runs += 1
                with cluster.consumer("t", group=f"g{runs}", auto_offset_reset="earliest") as own:
                    assert read(own) == records

            return run

        def bare(read: Callable[[pa.RecordBatch], int]) -> Callable[[], None]:
            def run() -> None:
                assert sum(read(batch) for path in files for batch in _batches(path)) == records

            return run

        return [
            compare(
                f"{what}Arrow tables (poll_table)",
                "bare loop over the Arrow files",
                "",
                consumed(lambda own: _count(lambda: own.poll_table().num_rows)),
                bare(lambda batch: batch.num_rows),
                rounds=rounds,
            ),
            compare(
                f"{what}records, {POLLED} a call (poll)",
                "bare loop, a tuple a record",
                "",
                consumed(lambda own: _count(lambda: sum(map(len, own.poll(max_records=POLLED).values())))),
                bare(_tuples),
                rounds=rounds,
            ),
            compare(
                f"{what}records one by one (for record in consumer)",
                "bare loop, a tuple a record",
                "",
                consumed(lambda own: _first(own, records)),
                bare(_tuples),
                rounds=rounds,
            ),
        ]


def _count(step: Callable[[], int]) -> int:
    count = 0
    while found := step():
        count += found
    return count


def _first(own: Consumer, records: int) -> int:
    for count, _ in enumerate(own, start=1):
        if count == records:
            return count
    return 0


def _tuples(batch: pa.RecordBatch) -> int:
    columns = [batch.column(name) for name in ("key", "value", "timestamp")]
    columns[2] = columns[2].cast(pa.int64())
    return sum(1 for _ in zip(*[column.to_pylist() for column in columns], strict=True))


def _batches(path: Path) -> list[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:
        file = pa.ipc.open_file(source)
        return [file.get_batch(number) for number in range(file.num_record_batches)]


def _write(root: Path, records: int) -> None:
    init_cluster(str(root))
    each = records // APPENDS
    with sparklog.connect(str(root)) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, config={"retention.ms": -1})
        for _ in range(APPENDS):
            keys = [os.urandom(8) for _ in range(each)]
            values = [os.urandom(VALUE_BYTES) for _ in range(each)]
            cluster.append("t", pa.table({"key": keys, "value": values}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sparklog-consumer-") as name:
        consumer(Path(name))
