"""`make bench`: every speed that is claimed, beside its peer, in one run; writes docs/benchmarks.md.

With STORE=s3 or STORE=hdfs: that store on a server of this machine, into docs/benchmarks-s3.md or -hdfs.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import sparklog.spark
from tests.bench import machine
from tests.bench.bare_source import BareSource
from tests.bench.commits import commit_rates
from tests.bench.paired import Comparison
from tests.bench.spark_bulk import bulk
from tests.bench.spark_small import shuffled, small
from tests.bench.stores import stores

PARTS = ("commits", "state", "small", "shuffled", "bulk")
DOCS = Path(__file__).parents[2] / "docs"
STORES = ("s3", "hdfs")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("parts", nargs="*", default=[], metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--no-report", action="store_true", help="print only, leave docs/benchmarks.md as it is")
    given = parser.parse_args()
    parts = given.parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}: choose of {', '.join(PARTS)}")
    store = os.environ.get("STORE") or ""
    if store and store not in STORES:
        parser.error(f"STORE={store}: wanted nothing, or one of {', '.join(STORES)}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    comparisons: list[Comparison] = []
    figures: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        folder = Path(name)
        if store:
            comparisons += stores(store, lambda settings: _session(folder, settings))
            parts = []
        if "commits" in parts:
            figures += commit_rates(folder)
        if "state" in parts:
            figures += _state_scale()
        spark_parts = [part for part in (small, shuffled, bulk) if part.__name__ in parts]
        if spark_parts:
            spark = _session(folder, {})
            for part in spark_parts:
                comparisons += part(spark, folder)
            spark.stop()
    if not given.no_report:
        report = DOCS / (f"benchmarks-{store}.md" if store else "benchmarks.md")
        report.write_text(_report(comparisons, figures, store))
        print(f"wrote {report}")
    return 0


def _session(folder: Path, settings: dict[str, str]) -> SparkSession:
    spark = (
        SparkSession.builder.config(map=settings)
        .master("local[2]")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    sparklog.spark.register(spark)
    spark.dataSource.register(BareSource)
    return spark


def _state_scale() -> list[tuple[str, str]]:
    """In a process of its own, so that its memory is its own."""
    run = [sys.executable, "-m", "tests.bench.state_scale"]
    lines = subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    print(*lines, sep="\n", flush=True)
    return [("state of the chain", line) for line in lines]


def _report(comparisons: list[Comparison], figures: list[tuple[str, str]], store: str) -> str:
    lines = [
        f"# Benchmarks on {store.upper()}" if store else "# Benchmarks",
        "",
        f"Written by `make bench{f' STORE={store}' if store else ''}`. Ratios are peer seconds / sparklog seconds, in "
        "pairs of one run: more is better.",
        "Each cell is min / median / max. Absolute times hold for this machine only.",
        "",
        f"Machine: {machine.describe()}",
        "",
        "| what | peer | goal | sparklog s | peer s | ratio | difference ms |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.what} | {each.peer} | {each.goal} | {each.ours_s.shown(3)} | {each.peer_s.shown(3)} "
        f"| {each.ratio.shown()} | {each.difference_ms.shown(0)} |"
        for each in comparisons
    ]
    if figures:
        lines += ["", "| what | figure |", "|---|---|", *(f"| {what} | {figure} |" for what, figure in figures)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
