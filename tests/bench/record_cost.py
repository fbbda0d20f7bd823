"""What a record costs on its way through sparklog's part of a keyed write, step by step, in processor time.

A separate process writes what one of four Spark tasks would; python -m tests.bench.record_cost prints the cost as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa

import sparklog
from sparklog.chain.commit.committer import new_command_id
from sparklog.client.bootstrap import init_cluster
from sparklog.client.plans import write_plan, write_rows
from sparklog.log import batch
from sparklog.log.write import object_writer, open_object, routing, topic_writer
from tests.bench.step_clock import Place, StepClock

RECORDS = 750_000
ROWS_OF_SPARK = 10_000  # spark.sql.execution.arrow.maxRecordsPerBatch
PARTITIONS = 4
ROUNDS = 7
CODECS = ("zstd", "lz4", "none")

_CODEC = "Arrow message and codec"
_REST = "the rest"
PLACES: tuple[Place, ...] = (
    ("columns and sizes checked", write_rows, "canonical"),
    ("columns and sizes checked", topic_writer, "check_sizes"),
    ("timestamps", topic_writer.TopicWriter, "_with_timestamps"),
    ("timestamps", batch, "timestamp_bounds"),
    ("keys to partitions (murmur2)", routing, "partitions_for_keys"),
    ("order of partitions (argsort)", np, "argsort"),
    ("rows by partition (take)", routing, "_take"),
    ("slices of partitions", topic_writer, "split"),
    ("batches joined", object_writer, "joined"),
    (_CODEC, batch._Arena, "write"),
    ("CRC32C", google_crc32c, "value"),
    ("file", open_object.OpenObject, "append"),
    ("index, sync", open_object.OpenObject, "close"),
)
STEPS = tuple(dict.fromkeys(step for step, _, _ in PLACES))


def steps_ns() -> dict[str, dict[str, float]]:
    """Codec -> step -> nanoseconds a record, as medians over the rounds. `the rest` is the time of no step."""
    return {codec: _medians([_round(codec) for _ in range(ROUNDS + 1)][1:]) for codec in CODECS}


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {step: statistics.median(each[step] for each in rounds) for step in (*STEPS, _REST)}


def _round(codec: str) -> dict[str, float]:
    """One task's write into a new cluster. The time of Arrow's own threads, which compress, counts as the codec's."""
    rows = _as_from_spark()
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        url = str(Path(name) / "c")
        init_cluster(url)
        with sparklog.connect(url) as cluster:
            cluster.create_topic("t", partitions=PARTITIONS, config={"retention.ms": -1})
            connection = cluster.connection
            state = connection.follower.newest_state()
            plan = write_plan.plan_write(
                state,
                connection.places(state),
                new_command_id(),
                topic="t",
                compression=codec,
                now_ms=time.time_ns() // 1_000_000,
            )
            clock = StepClock()
            whole = clock.timed(_REST, write_rows.write_rows)
            start_ns = time.process_time_ns()
            with clock.watching(PLACES):
                whole(plan, rows)
            others_ns = time.process_time_ns() - start_ns - clock.spent_ns.total()
    clock.spent_ns[_CODEC if codec != "none" else _REST] += max(0, others_ns)
    return {step: clock.spent_ns[step] / RECORDS for step in (*STEPS, _REST)}


def _as_from_spark() -> list[pa.RecordBatch]:
    """8 B keys and half compressible 100 B values; each batch is a view of what came through a socket."""
    dice = np.random.default_rng(1)
    noise = dice.integers(0, 256, (RECORDS, 108), dtype=np.uint8)
    noise[:, 58:] = 0
    columns = [_binary(noise[:, :8]), _binary(noise[:, 8:])]
    rows = pa.record_batch(columns, names=["key", "value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        for start in range(0, RECORDS, ROWS_OF_SPARK):
            stream.write_batch(rows.slice(start, ROWS_OF_SPARK))
    return list(pa.ipc.open_stream(sink.getvalue()))


def _binary(values: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> pa.Array:
    rows, width = values.shape
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(width))
    return pa.Array.from_buffers(pa.binary(), rows, [None, offsets, pa.py_buffer(np.ascontiguousarray(values))])


if __name__ == "__main__":
    json.dump(steps_ns(), sys.stdout)
