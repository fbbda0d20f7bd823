"""Writes one load with a bare Arrow writer or with `TopicWriter`, and prints the peak of resident memory in KiB.

python -m tests.log.peak_memory bare|sparklog LOAD DIRECTORY
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparklog.host.clock import sleep_s
from sparklog.log.kafka_columns import canonical
from sparklog.log.write.task_memory import WriterLimits
from sparklog.storage.local.store import LocalStore
from tests.kit.faulty_store import ALWAYS, FaultyStore
from tests.log.written_log import writer

PARTITIONS = 100
LOADS = ("interleaved", "large records", "small batches", "one partition in many")
SLOW_STORE = "slow store"


def batches(load: str) -> Iterator[pa.RecordBatch]:
    """About 400 MiB, half compressible, as an upstream would make it: each batch new."""
    dice = np.random.default_rng(11)
    records, size, count = {
        "interleaved": (10_000, 100, 400),
        "large records": (8, 1 << 20, 50),
        "small batches": (500, 1_000, 800),
        "one partition in many": (10_000, 100, 400),
        SLOW_STORE: (10_000, 100, 400),
    }[load]
    half = dice.integers(0, 256, (records, size), dtype=np.uint8)
    half[:, size // 2 :] = 7
    for number in range(count):
        half[:, : size // 2] += np.uint8(1)
        keys = dice.integers(0, 1 << 62, records)
        offsets = np.arange(records + 1, dtype=np.int32)
        columns = {
            "key": pa.Array.from_buffers(
                pa.binary(), records, [None, pa.py_buffer(offsets * np.int32(8)), pa.py_buffer(keys.tobytes())]
            ),
            "value": pa.Array.from_buffers(
                pa.binary(), records, [None, pa.py_buffer(offsets * np.int32(size)), pa.py_buffer(half.tobytes())]
            ),
        }
        if load == "one partition in many":  # the others get a record now and then, which must not hold its gather
            owners = np.zeros(records, dtype=np.int32)
            owners[:: records // 4] = [(7 * number + each) % PARTITIONS for each in range(4)]
            columns["partition"] = pa.array(owners)
        yield pa.record_batch(columns)


def slow_store(directory: str) -> FaultyStore:
    """Takes so long to publish an object that the next one is built meanwhile."""
    store = FaultyStore(LocalStore(directory))
    store.plan(lambda: sleep_s(0.5), "publish", times=ALWAYS)
    return store


def main(who: str, load: str, directory: str) -> None:
    if who == "bare":
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with Path(directory, "bare.arrow").open("wb") as file:
            open_writer = None
            for batch in batches(load):
                if open_writer is None:
                    open_writer = pa.ipc.new_file(file, batch.schema, options=options)
                open_writer.write_batch(batch)
            open_writer.close()
            os.fsync(file.fileno())
    else:
        slow = load == SLOW_STORE
        store = slow_store(directory) if slow else LocalStore(directory)
        compression = "none" if slow else "zstd"  # so that what waits for the store is as large as it gets
        with writer(
            store, PARTITIONS, limits=WriterLimits(), max_message_bytes=2 << 20, compression=compression
        ) as sparklog_writer:
            for batch in batches(load):
                sparklog_writer.add(canonical(batch))
            sparklog_writer.finish()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main(*sys.argv[1:])
