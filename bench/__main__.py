"""`make bench`: every speed that is claimed, measured beside its peer in one run.

It writes docs/benchmarks.md and the figures in the README. A run of some parts just prints.

With PEERS=1: Apache Kafka and Delta Lake, in a section of that page; peers that this machine can't get are skipped.
The part `streams` of such a run compares with Spark's Kafka connector, in a section of its own.

Copies of the metadata, the jobs of maintenance, streams, the Python clients, and the heap of a task are sections of
that page, written by the whole run, and by a run of the part `copies`, `maintenance`, `streams`, `python` or `heaps`
alone.

With STORE=s3, hdfs, gs or abfs: that store on a server of this machine, into docs/benchmarks-s3.md and so on. STORE=s3
has the part `clients`, by itself: HTTP clients beside each other, a section of that page.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import machine, peers_section, report
from bench.commits import commit_rates
from bench.coordinator import coordinated_rates, failover, producers, waiting
from bench.heaps import heaps
from bench.maintenance import maintenance
from bench.metadata_copies import copies
from bench.paired import Comparison
from bench.peers import peers
from bench.python_clients import python_clients
from bench.queries import query_rates, served_rates
from bench.replicas import deaths, replicas
from bench.replication import catch_up
from bench.s3_clients import clients
from bench.session import session
from bench.spark_bulk import bulk
from bench.spark_small import shuffled, small
from bench.stores import stores
from bench.streams import beside_kafka, streams
from bench.waiting import waits
from tests import readme_figures

PARTS = (
    "commits",
    "coordinator",
    "queries",
    "waiting",
    "state",
    "soak",
    "replication",
    "replicas",
    "small",
    "shuffled",
    "bulk",
)
Measured = tuple[list[Comparison], list[tuple[str, str]]]
SECTIONS: dict[str, tuple[Callable[[Path], Measured], Callable[..., str]]] = {
    "copies": (copies, report.copies_section),
    "maintenance": (maintenance, report.maintenance_section),
    "streams": (streams, report.streams_section),
    "python": (python_clients, report.python_section),
    "heaps": (heaps, report.heaps_section),
}
STORES = ("s3", "hdfs", "gs", "abfs")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    shown = f"of {', '.join(PARTS)}: print these only; or one of {', '.join(SECTIONS)}: write its section"
    parser.add_argument("parts", nargs="*", default=[], metavar="PART", help=shown)
    given = parser.parse_args()
    store = os.environ.get("STORE") or ""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # stop what was started, as for Ctrl-C
    if os.environ.get("PEERS"):
        if given.parts == ["streams"] and not store:
            return _section(beside_kafka, report.streams_beside_kafka_section)
        if store or given.parts:
            parser.error("PEERS=1 is a run of its own: wanted neither STORE nor parts but streams")
        return _peers()
    if store == "s3" and given.parts == ["clients"]:
        return _clients()
    if len(given.parts) == 1 and given.parts[0] in SECTIONS and not store:
        return _section(*SECTIONS[given.parts[0]])
    parts = given.parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}: choose of {', '.join(PARTS)}")
    if store and store not in STORES:
        parser.error(f"STORE={store}: wanted nothing, or one of {', '.join(STORES)}")
    where = machine.describe() + machine.loaded()
    comparisons: list[Comparison] = []
    figures: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        folder = Path(name)
        if store:
            comparisons += stores(store, lambda settings: session(folder, settings))
            parts = []
        if "commits" in parts:
            figures += commit_rates(folder)
        if "coordinator" in parts:
            figures += coordinated_rates() + producers() + failover(folder) + waiting()
        if "queries" in parts:
            figures += query_rates() + served_rates()
        if "waiting" in parts:
            figures += waits()
        if "state" in parts:
            figures += _alone("state_scale", "state of the chain")
        if "soak" in parts:
            figures += _alone("soak", "100,000 commits, maintained")
        if "replication" in parts:
            comparisons += catch_up(folder)
        if "replicas" in parts:
            figures += deaths(folder)
        spark_parts = [part for part in (replicas, small, shuffled, bulk) if part.__name__ in parts]
        if spark_parts:
            spark = session(folder, {})
            for part in spark_parts:
                comparisons += part(spark, folder)
            spark.stop()
    if store or set(parts) == set(PARTS):
        path = report.path_of(store)
        kept = report.sections_of(path.read_text(encoding="utf-8")) if path.exists() else ""
        path.write_text(report.page(where, comparisons, figures, store) + kept, encoding="utf-8")
        readme_figures.write()
        print(f"wrote {path}, and its figures into README.md")
        return 0 if store else max(_section(*section) for section in SECTIONS.values())
    return 0


def _section(measure: Callable[[Path], Measured], section_of: Callable[..., str]) -> int:
    where = machine.describe() + machine.loaded()
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        comparisons, figures = measure(Path(name))
    if not comparisons and not figures:
        print("no peer is there: nothing was measured")
        return 0
    section = section_of(where, comparisons, figures)
    path = report.path_of("")
    path.write_text(report.with_section(path.read_text(encoding="utf-8"), section), encoding="utf-8")
    readme_figures.write()
    print(f"wrote {path}, and its figures into README.md")
    return 0


def _clients() -> int:
    path = report.path_of("s3")
    section = report.clients_section(machine.describe(), clients())
    path.write_text(report.with_section(path.read_text(encoding="utf-8"), section), encoding="utf-8")
    print(f"wrote {path}")
    return 0


def _peers() -> int:
    where = machine.describe() + machine.loaded()
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        results = peers(lambda settings: session(Path(name), settings), Path(name))
    if not results.comparisons:
        print("no peer is there: nothing was measured")
        return 0
    path = report.path_of("")
    section = peers_section.section(where, results)
    path.write_text(report.with_section(path.read_text(encoding="utf-8"), section), encoding="utf-8")
    readme_figures.write()
    print(f"wrote {path}, and its figures into README.md")
    return 0


def _alone(module: str, what: str) -> list[tuple[str, str]]:
    """Run it in a process of its own, so that the memory measured is its own."""
    run = [sys.executable, "-m", f"bench.{module}"]
    lines = subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    print(*lines, sep="\n", flush=True)
    return [(what, line) for line in lines]


if __name__ == "__main__":
    sys.exit(main())
