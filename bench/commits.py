"""Commits of one process: through the whole client, and the commit path alone, with objects already uploaded.

python -m bench.commits        prints a line per figure
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.chain.commit.committer import Committer, new_command_id
from sparklog.chain.follow.follower import Follower
from sparklog.client.bootstrap import init_cluster
from sparklog.core.commands import Submission
from sparklog.core.coordination import Author
from sparklog.core.describe.readable import counted
from sparklog.core.types import Holder
from sparklog.storage.local.store import LocalStore
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import Bytes, ObjectStore
from tests.chain.chain_kit import append

PARTITIONS = 32
PUT_S = 0.060  # roughly that of a store in the cloud
SUBMITTERS = 512


def commit_rates(folder: Path, seconds: float = 5.0) -> list[tuple[str, str]]:
    """Rows for the report: (what was measured, its figure)."""
    rows = [_through_the_client(folder, threads, seconds) for threads in (1, 32)]
    return [*rows, *commit_path(folder)]


def commit_path(folder: Path) -> list[tuple[str, str]]:
    """The same rows for the commit path alone."""
    return [_behind_a_slow_store(), *(_on_local_disk(folder, threads) for threads in (1, 32)), _in_memory()]


def _through_the_client(folder: Path, threads: int, seconds: float) -> tuple[str, str]:
    url = str(folder / f"commits-{threads}")
    init_cluster(url)
    batch = pa.table({"value": ["x" * 100] * 10})
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, config={"retention.ms": -1})
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
    return _row(f"append of 10 records, {counted(threads, 'thread')}", figure)


# ---- the commit path alone ------------------------------------------------------------------------


class SlowStore(MemoryStore):
    """A store in memory whose puts take as long as those of a cloud store once `slow` is set."""

    slow = False

    def put_if_absent(self, key: str, body: Bytes) -> None:
        if self.slow:
            time.sleep(PUT_S)
        super().put_if_absent(key, body)


@dataclass
class Commits:
    """What a number of callers committed before the first of them ran out of commits."""

    appends: int
    entries: int
    elapsed_s: float
    processor_s: float
    syncs_s: list[float]  # how long each fsync took

    def shown(self) -> str:
        """Rates, for the report."""
        per_entry = self.appends / max(self.entries, 1)
        return (
            f"{self.appends / self.elapsed_s:.0f} appends/s, {self.entries / self.elapsed_s:.0f} entries/s, "
            f"{per_entry:.1f} per entry, {self.processor_s / self.appends * 1e6:.0f} µs of processor time each"
        )


def _behind_a_slow_store() -> tuple[str, str]:
    store = SlowStore(f"memory://{uuid.uuid4().hex}")
    committer = _cluster_on(store)
    store.slow = True
    found = _committed(committer, SUBMITTERS, 40)
    return _row(
        f"commit path alone, {PUT_S * 1000:.0f} ms a put, {SUBMITTERS} callers of one record each",
        f"{found.shown()} (goal >= 5000 appends/s)",
    )


def _on_local_disk(folder: Path, threads: int) -> tuple[str, str]:
    committer = _cluster_on(LocalStore(str(folder / f"path-{threads}")))
    found = _committed(committer, threads, 3_000 // threads)
    syncs = len(found.syncs_s)
    return _row(
        f"commit path alone, local disk, {counted(threads, 'thread')}",
        f"{found.shown()}; {syncs / found.appends:.2f} fsyncs an append, {syncs / found.entries:.2f} an entry, "
        f"{sum(found.syncs_s) / found.elapsed_s:.0%} of the time",
    )


def _in_memory() -> tuple[str, str]:
    """The least of several runs, since other work on the machine can only add to it."""
    runs = [_committed(_cluster_on(MemoryStore(f"memory://{uuid.uuid4().hex}")), 1, 3_000) for _ in range(5)]
    least, most = (pick(each.processor_s / each.appends * 1e6 for each in runs) for pick in (min, max))
    return _row(
        "commit path alone, in memory, 1 thread, snapshots included",
        f"{least:.0f} µs of processor time an append (the least of 5 runs; the most: {most:.0f})",
    )


def _cluster_on(store: ObjectStore) -> Committer:
    """The committer of a new cluster with a topic."""
    init_cluster(store.url)
    with sparklog.connect(store.url) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS, config={"retention.ms": -1})
    follower = Follower(store)
    follower.open()
    return Committer(follower, Author("client", "bench"))


def _committed(committer: Committer, callers: int, each: int) -> Commits:
    """Let this many callers commit `each` appends of one record."""
    (store,) = committer.follower.state.stores.values()
    n0, holders = committer.follower.state.n0, (Holder(store.store, store.registration),)
    prepared = [
        [
            Submission(new_command_id(), n0, append(partition=number % PARTITIONS, n0=n0, holders=holders))
            for _ in range(each)
        ]
        for number in range(callers)
    ]
    done = [0] * callers
    begin, first_end = threading.Barrier(callers + 1), threading.Event()

    def work(number: int) -> None:
        begin.wait()
        for submission in prepared[number]:
            committer.submit(submission)
            done[number] += 1
        first_end.set()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(callers)]
    for worker in workers:
        worker.start()
    gc.collect()
    before = committer.counts.entries
    with _timed_syncs() as syncs:
        begin.wait()
        start, processor = time.perf_counter(), time.process_time()
        first_end.wait()
        found = Commits(
            sum(done),
            committer.counts.entries - before,
            time.perf_counter() - start,
            time.process_time() - processor,
            syncs.copy(),
        )
    for worker in workers:
        worker.join()
    committer.close()
    return found


@contextmanager
def _timed_syncs() -> Iterator[list[float]]:
    """The seconds that each fsync of this process takes."""
    took: list[float] = []

    def timed(real):  # type: ignore[no-untyped-def]
        def sync(fd: int) -> None:
            begin = time.perf_counter()
            real(fd)
            took.append(time.perf_counter() - begin)

        return sync

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, timed(getattr(os, name)))
        yield took


def _row(what: str, figure: str) -> tuple[str, str]:
    print(f"{what}: {figure}", flush=True)
    return what, figure


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sparklog-commits-") as name:
        commit_path(Path(name))
