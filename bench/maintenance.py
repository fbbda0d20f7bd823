"""The jobs of maintenance: a section of docs/benchmarks.md.

python -m bench.maintenance        prints a line per figure
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.old_entries import old_entries
from bench.paired import Comparison
from bench.plans import plans
from bench.recovery import recovery
from bench.retention import retention
from bench.rewrites import rewrites
from bench.session import session
from bench.verify import verify_speed


def maintenance(folder: Path) -> tuple[list[Comparison], list[tuple[str, str]]]:
    """Comparisons, and figures: (what was measured, its figure)."""
    spark = session(folder, {})
    comparisons, figures = rewrites(spark, folder)
    spark.stop()
    for part in (recovery, verify_speed):
        comparisons += part(folder)
    comparisons += old_entries(folder)
    return comparisons, [*figures, *retention(folder), *plans()]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        maintenance(Path(name))


if __name__ == "__main__":
    main()
