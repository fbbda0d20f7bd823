"""Retention of 10,000 segments on a local disk: opened, planned and committed.

python -m bench.retention        prints a line per figure
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from bench.paired import Spread, seconds
from bench.plans import write_cluster
from bench.state_scale import large_state
from sparklog.maintenance.space.retention_job import run_retention

SEGMENTS = 10_000
PARTITIONS = (1, 100, 10_000)
ROUNDS = 3
MOST_S = 5


def retention(folder: Path, segments: int = SEGMENTS) -> list[tuple[str, str]]:
    """Rows for the report: (what was measured, its figure). A partition is a command; commands share entries."""
    return [_row(folder / "retention", segments, min(count, segments)) for count in PARTITIONS]


def _row(root: Path, segments: int, partitions: int) -> tuple[str, str]:
    took = []
    for _ in range(ROUNDS):
        write_cluster(root, large_state(segments, partitions=partitions))
        took.append(seconds(lambda: _retained(str(root), segments)))
        shutil.rmtree(root)
    what = f"retention of {segments:,} segments of {partitions:,} partitions, local disk"
    figure = f"planned and committed in {Spread.of(took).shown(2)} s (goal < {MOST_S})"
    print(f"{what}: {figure}", flush=True)
    return what, figure


def _retained(url: str, segments: int) -> None:
    report = run_retention(url, console=io.StringIO())
    if report.exit_code or report.done.objects != segments:
        raise AssertionError(report.to_json())


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        retention(Path(name))


if __name__ == "__main__":
    main()
