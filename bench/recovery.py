"""Recovery of a store on a local disk, beside plain sequential reads of the same files with one checksum.

python -m bench.recovery        prints a line per figure
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from pathlib import Path

import google_crc32c
import pyarrow as pa

import sparklog
from bench.paired import Comparison, compared, interleaved, seconds
from sparklog.client.bootstrap import init_cluster
from sparklog.maintenance.verify.recovery_job import run_recovery

OBJECTS, OBJECT_BYTES = 16, 32 << 20
RECORD_BYTES, READ_BYTES = 4_000, 8 << 20
ROUNDS = 3


def recovery(folder: Path, objects: int = OBJECTS, object_bytes: int = OBJECT_BYTES) -> list[Comparison]:
    """All objects of one store, with their indexes, in this process. Whole objects: nothing is repaired."""
    root = folder / "recovery"
    url = str(root)
    _write_log(url, objects, object_bytes)
    files = sorted(path for path in root.rglob("*") if path.suffix in (".arrow", ".index"))
    size_bytes = sum(path.stat().st_size for path in files)
    runs = {"ours": lambda: _recovered(url), "theirs": lambda: _read(files)}
    took = interleaved(runs, seconds, rounds=ROUNDS, warm_up=1)
    what = f"recovery --full of {objects} objects, {size_bytes >> 20} MiB in all, local disk"
    shutil.rmtree(root)
    return [compared(what, "sequential reads + CRC32C", ">= 0.5", took["ours"], took["theirs"])]


def _write_log(url: str, objects: int, object_bytes: int) -> None:
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=1, config={"compression.type": "uncompressed"})
        values = [os.urandom(RECORD_BYTES) for _ in range(max(1, object_bytes // RECORD_BYTES))]
        for _ in range(objects):
            cluster.append("t", pa.table({"value": pa.array(values, pa.binary())}))


def _recovered(url: str) -> None:
    report = run_recovery(url, full=True, console=io.StringIO())
    if report.exit_code:
        raise AssertionError(report.to_json())


def _read(files: list[Path]) -> None:
    for path in files:
        crc = 0
        with path.open("rb", buffering=0) as file:
            while body := file.read(READ_BYTES):
                crc = google_crc32c.extend(crc, body)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        recovery(Path(name))


if __name__ == "__main__":
    main()
