"""What copies of the chain cost an append: `metadata.copies` of 1 and 2 beside none, on a disk and on a late S3.

python -m bench.metadata_copies        prints a line per figure
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

import sparklog
from bench.paired import Comparison, compared, interleaved, seconds
from bench.restores import LATE_MS, restores
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.describe.readable import counted
from tests.servers.fault_proxy import FaultProxy
from tests.servers.run_with import server

COPIES = (0, 1, 2)
PARTITIONS = 32
APPENDS = {1: 20, 8: 8}  # of each thread in a round
ROUNDS = 5


def copies(folder: Path) -> tuple[list[Comparison], list[tuple[str, str]]]:
    """Comparisons and rows for the section of the report."""
    return copies_cost(folder), restores(folder)


def copies_cost(folder: Path, rounds: int = ROUNDS) -> list[Comparison]:
    """Appends of 10 records to three stores, with the metadata at a fourth place."""
    found = _compared("disk", str(folder / "copies"), rounds, {})
    with server("s3") as variables, FaultProxy(variables["AWS_ENDPOINT_URL"]) as proxy:
        os.environ.update({name: value for name, value in variables.items() if name != "STORE"})
        settings = {"metadata.endpoint_url": proxy.url, **{f"{store}.endpoint_url": proxy.url for store in "abc"}}
        late = f"S3, {LATE_MS} ms a request"
        return found + _compared(
            late, variables["STORE"], rounds, settings, lambda: setattr(proxy, "delay_ms", LATE_MS)
        )


def _compared(
    where: str, root: str, rounds: int, settings: dict[str, str], begin: Callable[[], object] = lambda: None
) -> list[Comparison]:
    found = []
    with ExitStack() as opened:
        clusters = {
            str(number): opened.enter_context(_cluster(f"{root}/{number}", number, settings)) for number in COPIES
        }
        begin()
        for threads, each in APPENDS.items():
            sides = {name: _appending(cluster, threads, each) for name, cluster in clusters.items()}
            runs = interleaved(sides, seconds, rounds=rounds, warm_up=1)
            took = {name: [run / each for run in of_side] for name, of_side in runs.items()}
            without = statistics.median(took["0"])
            print(f"append, {where}, {counted(threads, 'thread')}: {without * 1000:.1f} ms without copies", flush=True)
            found += [
                compared(
                    f"append, metadata.copies={name}, {where}, {counted(threads, 'thread')}",
                    "metadata.copies=0",
                    "",
                    took[name],
                    took["0"],
                )
                for name in list(took)[1:]
            ]
    return found


def _cluster(url: str, number: int, settings: dict[str, str]) -> Cluster:
    stores = {store: f"../{store}" for store in "abc"}
    config = {"metadata.copies": number}
    init_cluster(f"{url}/meta", stores=stores, config=config, storage=settings)
    cluster = sparklog.connect(f"{url}/meta", storage=settings)
    cluster.create_topic("t", partitions=PARTITIONS, replication_factor=3, config={"retention.ms": -1})
    return cluster


def _appending(cluster: Cluster, threads: int, each: int) -> Callable[[], None]:
    batch = pa.table({"value": ["x" * 100] * 10})

    def work() -> None:
        for _ in range(each):
            cluster.append("t", batch)

    def run() -> None:
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return run


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sparklog-copies-") as name:
        copies_cost(Path(name))
