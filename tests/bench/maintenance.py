"""The jobs of maintenance: a section of docs/benchmarks.md.

python -m tests.bench.maintenance        prints a line per figure
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench.old_entries import old_entries
from tests.bench.paired import Comparison
from tests.bench.plans import plans
from tests.bench.recovery import recovery
from tests.bench.retention import retention
from tests.bench.rewrites import rewrites
from tests.bench.session import session
from tests.bench.verify import verify_speed


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
