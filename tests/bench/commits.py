"""Appends through the embedded committer: alone, and with 32 threads that share entries (group commit)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.readable import counted


def commit_rates(folder: Path, seconds: float = 5.0) -> list[tuple[str, str]]:
    """Rows for the report: what, figure."""
    return [_rate(folder, threads, seconds) for threads in (1, 32)]


def _rate(folder: Path, threads: int, seconds: float) -> tuple[str, str]:
    url = str(folder / f"commits-{threads}")
    init_cluster(url)
    batch = pa.table({"value": ["x" * 100] * 10})
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=32, config={"retention.ms": -1})
        done = [0] * threads
        end = time.perf_counter() + seconds

        def work(number: int) -> None:
            while time.perf_counter() < end:
                cluster.append("t", batch)
                done[number] += 1

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        counts = cluster.connection.committer.counts
        per_entry = sum(done) / max(counts.entries, 1)
    figure = f"{sum(done) / seconds:.0f} appends/s, {counts.entries / seconds:.0f} entries/s, {per_entry:.1f} per entry"
    print(f"append of 10 records, {counted(threads, 'thread')}: {figure}", flush=True)
    return (f"append of 10 records, {counted(threads, 'thread')}", figure)
