"""How often each byte of a record is copied on its way: counted, and written into the table of docs/copies.md.

python -m tests.docs.copies     measures, and writes the table into the page
"""

from __future__ import annotations

import gc
import io
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructType

import sparklog
from sparklog.cli.main import run
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.log.batch import BatchEncoder, EncodedBatch
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.options.typed import parse_read_options, parse_write_options
from sparklog.spark.read.batch_reader import BatchReader
from sparklog.spark.schema import records_schema
from sparklog.spark.write.batch_writer import BatchWriter, begin_write
from sparklog.storage.local.store import LocalStore

PAGE = Path(__file__).parents[2] / "docs" / "copies.md"
BEGIN, END = "<!-- measured: begin (python -m tests.docs.copies) -->", "<!-- measured: end -->"

VALUE_BYTES, ROWS, BATCHES = 4096, 512, 8  # 2 MiB a batch, 16 MiB in all
SMALL_ROWS = 40  # a stored batch of so many is decoded and joined when it is rolled
APPENDS = 32
SCHEMA = StructType().add("key", BinaryType()).add("value", BinaryType())
TOPICS = {"plain": 1, "keyed": 6, "packed": 1, "large": 1, "small": 1}


@dataclass(frozen=True)
class Counted:
    """Copies per byte of records. `objects`: the most that Python objects held at once."""

    path: str
    arrow: float
    encoded: float
    objects: float
    kernel: float

    @property
    def in_memory(self) -> int:
        return round(self.arrow + self.encoded + self.objects)


class _Counter:
    """Bytes that are encoded into objects, and bytes that go from and to files by read and write."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.encoded = self.kernel = 0
        encode, write, pread = BatchEncoder.encode, os.write, os.pread

        def counted_encode(encoder: BatchEncoder, *given: Any) -> EncodedBatch:
            found = encode(encoder, *given)
            self.encoded += found.message.size
            return found

        def counted_write(fd: int, body: Any) -> int:
            count = write(fd, body)
            self.kernel += count
            return count

        def counted_pread(fd: int, size_bytes: int, at: int) -> bytes:
            found = pread(fd, size_bytes, at)
            self.kernel += len(found)
            return found

        patch.setattr(BatchEncoder, "encode", counted_encode)
        patch.setattr(os, "write", counted_write)
        patch.setattr(os, "pread", counted_pread)

    def count(
        self, path: str, size_bytes: int, work: Callable[[], object], prepare: Callable[[], object] = lambda: None
    ) -> Counted:
        """What `work` copies, for each of the `size_bytes` of records that it moves; `prepare` is not counted."""
        prepare()
        work()  # what is loaded, cached and opened once does not count
        prepare()
        gc.collect()
        pool = pa.default_memory_pool()
        self.encoded = self.kernel = 0
        arrow = pool.total_bytes_allocated()
        tracemalloc.start()
        try:
            work()
            _, objects = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        arrow = pool.total_bytes_allocated() - arrow
        return Counted(path, *(each / size_bytes for each in (arrow, self.encoded, objects, self.kernel)))


def measure() -> list[Counted]:
    """Every path, on a local disk."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        counter = _Counter(patch)
        url = str(Path(folder, "cluster"))
        init_cluster(url)
        with sparklog.connect(url) as cluster:
            for topic, partitions in TOPICS.items():
                cluster.create_topic(topic, partitions=partitions)
            return list(_paths(counter, cluster, folder))


def _paths(counter: _Counter, cluster: Cluster, folder: str) -> Iterator[Counted]:
    large = [_rows(ROWS, each) for each in range(BATCHES)]
    small = [[_rows(SMALL_ROWS, 100 + each)] for each in range(APPENDS)]
    whole, all_small = BATCHES * ROWS * VALUE_BYTES, APPENDS * SMALL_ROWS * VALUE_BYTES
    batch = ROWS // 2 * VALUE_BYTES  # as stored: 1 MiB

    def append_small() -> None:
        for each in small:
            _append(cluster, "small", each)

    for topic, compression in (("plain", "none"), ("packed", "zstd")):
        _append(cluster, topic, large, compression)
    yield counter.count("write, one partition, uncompressed", whole, lambda: _write(cluster, "plain", large, "none"))
    yield counter.count("write, one partition, zstd", whole, lambda: _write(cluster, "plain", large, "zstd"))
    yield counter.count("write, 6 partitions by key, zstd", whole, lambda: _write(cluster, "keyed", large, "zstd"))
    yield counter.count("read by a Spark task, stored uncompressed", whole, lambda: _read(cluster, "plain"))
    yield counter.count("read by a Spark task, stored with zstd", whole, lambda: _read(cluster, "packed"))
    yield counter.count("`Cluster.read`, stored uncompressed", whole, lambda: cluster.read("plain", partition=0))
    yield counter.count("`sparklog consume`, lines", batch, lambda: _consume(counter, cluster, "plain", ROWS // 2))
    yield counter.count(
        "roll, batches of 256 KiB and more",
        whole,
        lambda: _roll(cluster, "large"),
        lambda: _append(cluster, "large", large),
    )
    yield counter.count(
        "roll, smaller batches",
        all_small,
        lambda: _roll(cluster, "small"),
        append_small,
    )
    source, target = (LocalStore(str(Path(folder, name))) for name in ("source", "target"))
    source.put_if_absent("key", bytes(whole))
    yield counter.count(
        "an object copied to another directory",
        whole,
        lambda: target.copy_from(source, "key", "key"),
        lambda: target.delete("key"),
    )


# ---- what is measured -------------------------------------------------------------------------------


def _rows(count: int, seed: int) -> pa.RecordBatch:
    """Records as Spark hands them over, with values that do not compress."""
    dice = np.random.default_rng(seed)
    values = dice.integers(0, 256, count * VALUE_BYTES, dtype=np.uint8).tobytes()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(VALUE_BYTES)
    column = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(values)])
    return pa.record_batch({"key": pa.array([b"%d" % each for each in range(count)]), "value": column})


def _write(cluster: Cluster, topic: str, batches: Sequence[pa.RecordBatch], compression: str) -> None:
    """As a Spark task does it: batches in, objects in the store."""
    _begun(cluster, topic, compression).write(iter(batches))


def _append(cluster: Cluster, topic: str, batches: Sequence[pa.RecordBatch], compression: str = "none") -> None:
    writer = _begun(cluster, topic, compression)
    writer.commit([writer.write(iter(batches))])


def _begun(cluster: Cluster, topic: str, compression: str) -> BatchWriter:
    given = {"cluster": cluster.connection.url, "topic": topic, "compression": compression}
    return begin_write(parse_write_options(given), SCHEMA)


def _read(cluster: Cluster, topic: str) -> None:
    """As a Spark task does it, which hands each batch to Spark and forgets it."""
    options = parse_read_options({"cluster": cluster.connection.url, "subscribe": topic})
    reader = BatchReader(options, records_schema(["key", "value"]))
    for task in reader.partitions():
        for _ in reader.read(task):
            pass


def _consume(counter: _Counter, cluster: Cluster, topic: str, records: int) -> None:
    class Pipe(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, body: Any) -> int:
            counter.kernel += len(body)
            return len(body)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(Pipe())))
        assert run(["consume", topic, "--num", str(records), "--cluster", cluster.connection.url]) == 0


def _roll(cluster: Cluster, topic: str) -> None:
    assert run_roll(cluster.connection.url, topics=[topic], everything=True, console=io.StringIO()).exit_code == 0


# ---- the page ---------------------------------------------------------------------------------------


def table(found: Sequence[Counted]) -> str:
    """The table of the page, in whole numbers."""
    lines = ["| path | copies in memory | to or from files |", "|---|---:|---:|"]
    lines += [f"| {each.path} | {each.in_memory} | {round(each.kernel)} |" for each in found]
    return "\n".join(lines) + "\n"


def page_with(counted: str) -> str:
    """The page with this table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{counted}{END}{after}"


if __name__ == "__main__":
    counted = measure()
    for each in counted:
        print(each)
    PAGE.write_text(page_with(table(counted)), encoding="utf-8")
