"""Verify, beside a plain sequential read of the same files with CRC32C.

python -m bench.verify        prints a line per figure
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa

import sparklog
from bench.paired import Comparison, compare
from sparklog.client.bootstrap import init_cluster
from sparklog.maintenance.verify.verify_job import run_verify

RECORDS, RECORD_BYTES = 2_000_000, 200
READ_BYTES = 8 << 20


def verify_speed(folder: Path, records: int = RECORDS) -> list[Comparison]:
    """One process verifies the objects of one topic on a local disk."""
    root = folder / "verify"
    init_cluster(str(root))
    dice = np.random.default_rng(1)
    with sparklog.connect(str(root)) as cluster:
        cluster.create_topic("t", partitions=4)
        for _ in range(10):
            body = dice.integers(0, 256, records // 10 * RECORD_BYTES, dtype=np.uint8).tobytes()
            values = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(RECORD_BYTES), records // 10, [None, pa.py_buffer(body)]
            )
            cluster.append("t", pa.table({"value": values.cast(pa.binary())}))
    size_bytes = sum(path.stat().st_size for path in (root / "append").rglob("*.arrow"))

    def ours() -> None:
        report = run_verify(str(root), topics=["t"], console=io.StringIO())
        assert report.exit_code == 0

    def theirs() -> None:
        for path in sorted((root / "append").rglob("*.*")):
            seen = 0
            with path.open("rb", buffering=0) as file:
                while piece := file.read(READ_BYTES):
                    seen = google_crc32c.extend(seen, piece)

    what = f"verify reads {size_bytes >> 20} MiB of objects, one process, local disk"
    comparisons = [compare(what, "read + CRC32C", ">= 0.3", ours, theirs, rounds=3)]
    shutil.rmtree(root)
    return comparisons


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        verify_speed(Path(name))


if __name__ == "__main__":
    main()
