"""The producer of Python programs, beside a loop that gathers and writes the same records without a log.

python -m bench.producing        prints a line per comparison
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc

import sparklog
from bench.paired import Comparison, compare
from sparklog.client.bootstrap import init_cluster
from sparklog.core.describe.readable import counted

RECORDS = 300_000
LINGER_MS = 50
PARTITIONS = 4
_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.timestamp("us", tz="UTC"))])


def producing(folder: Path) -> list[Comparison]:
    """Keys of 8 B, values of 100 random B; all futures are waited for."""
    keys = [os.urandom(8) for _ in range(1_000)]
    values = [os.urandom(100) for _ in range(10_000)]
    url = str(folder / "producing")
    init_cluster(url)
    numbers = itertools.count()
    with sparklog.connect(url) as cluster:

        def ours() -> None:
            topic = f"t-{next(numbers)}"
            cluster.create_topic(topic, partitions=PARTITIONS, config={"retention.ms": -1})
            with cluster.producer(linger_ms=LINGER_MS) as producer:
                send = producer.send
                for key, value in zip(itertools.cycle(keys), itertools.islice(itertools.cycle(values), RECORDS)):
                    last = send(topic, value, key=key)
            assert last.exception() is None

        def theirs() -> None:
            with BareLoop(folder / f"bare-{next(numbers)}") as loop:
                send = loop.send
                for key, value in zip(itertools.cycle(keys), itertools.islice(itertools.cycle(values), RECORDS)):
                    send(key, value)

        what = f"Python producer, {counted(RECORDS, 'record')} of 100 B, linger {LINGER_MS} ms, {PARTITIONS} partitions"
        return [compare(what, "a loop that gathers and writes Arrow files", "", ours, theirs)]


class BareLoop:
    """What a program without a log would do: append to a list, and write it every LINGER_MS as a synced Arrow file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._lock = threading.Lock()
        self._waiting: list[tuple[bytes, bytes]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> BareLoop:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def send(self, key: bytes, value: bytes) -> None:
        with self._lock:
            self._waiting.append((key, value))

    def _run(self) -> None:
        for number in itertools.count():
            over = self._over.wait(LINGER_MS / 1000)
            with self._lock:
                taken, self._waiting = self._waiting, []
            if taken:
                self._write(self._folder / f"{number}.arrow", taken)
            if over:
                return

    def _write(self, path: Path, taken: list[tuple[bytes, bytes]]) -> None:
        keys, values = zip(*taken, strict=True)
        times = pa.array([0] * len(taken), pa.int64()).cast(_SCHEMA.field("timestamp").type)
        rows = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values), times], schema=_SCHEMA)
        with open(path, "wb") as file:
            with ipc.new_file(file, _SCHEMA, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
                writer.write_batch(rows)
            file.flush()
            os.fsync(file.fileno())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        producing(Path(name))
