"""What replicas cost: a Spark write to three stores beside one, and how long the death of a store holds up a writer."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import sparklog
from bench.paired import Comparison, Spread, compare
from bench.spark_bulk import rows
from sparklog.client.bootstrap import init_cluster
from tests.servers import s3_servers
from tests.servers.s3_servers import S3Server

RECORDS, VALUE_BYTES = 3_000_000, 100
PARTITIONS = 4
DEATHS = 5
DEADLINE_MS = 2_000  # replica.lag.time.max.ms of the cluster whose store stops answering
STORES = "abc"


def replicas(spark: SparkSession, folder: Path, records: int = RECORDS, rounds: int = 5) -> Iterator[Comparison]:
    """Writes with acks=all to stores that are directories of one disk, so that three take three times its work."""
    url = str(folder / "replicas" / "chain")
    init_cluster(url, stores={store: f"../{store}" for store in STORES})
    frame = rows(spark, VALUE_BYTES, records)
    number = itertools.count()

    def write(factor: int) -> None:
        topic = f"rf{factor}-{next(number)}"
        with sparklog.connect(url) as cluster:
            assignment = [[STORES[(first + at) % 3] for at in range(factor)] for first in range(PARTITIONS)]
            cluster.create_topic(topic, assignment=assignment, config={"retention.ms": -1})
        written = frame.write.format("sparklog").option("cluster", url).option("topic", topic)
        written.mode("append").save()

    for kept, label in ((records, f"{records / 1e6:g} M records"), (1_000, "1,000 records")):
        frame = frame if kept == records else frame.limit(kept).persist()
        yield compare(
            f"write {label} of 8 + {VALUE_BYTES} B to three stores of one disk",
            "to one store",
            ">= 0.67" if kept == records else "",
            lambda: write(3),
            lambda: write(1),
            rounds=rounds,
        )
    frame.unpersist()


def deaths(folder: Path, runs: int = DEATHS) -> list[tuple[str, str]]:
    """From the death of the leader's store to the next acknowledged write of a writer that was there before."""
    what = "one of three stores dies"
    figures = []
    with ExitStack() as stack:
        servers = {store: stack.enter_context(s3_servers.ministack()) for store in STORES}
        for name, took in (
            ("its directory is gone", _local(folder / "local", runs)),
            ("its S3 server is killed", _s3(folder / "killed", servers, runs, signal.SIGKILL)),
            (
                f"its S3 server stops answering, replica.lag.time.max.ms={DEADLINE_MS}",
                _s3(folder / "mute", servers, runs, signal.SIGSTOP),
            ),
        ):
            text = f"{name}: the next write is acknowledged after {Spread.of(took).shown(2)} s"
            if DEADLINE_MS / 1000 < min(took):
                text += f", {DEADLINE_MS / 1000:g} s of it the deadline (default 30 s)"
            print(f"{what}: {text}", flush=True)
            figures.append((what, text))
    return figures


def _local(folder: Path, runs: int) -> list[float]:
    took = []
    for run in range(runs):
        root = folder / f"{run}"
        stores = {store: str(root / store) for store in STORES}
        gone = root / "gone"
        took.append(_death(str(root / "chain"), stores, {}, lambda at=root / "a", gone=gone: at.rename(gone)))  # type: ignore[misc]
    return took


def _s3(folder: Path, servers: Mapping[str, S3Server], runs: int, how: signal.Signals) -> list[float]:
    """Three servers, each of a store; that of the leader gets this signal, and is there again after the write."""
    took = []
    storage = {f"{store}.{key}": value for store, server in servers.items() for key, value in server.settings.items()}
    dies = servers["a"]
    for run in range(runs):
        stores = {store: f"s3://{server.new_bucket()}/log" for store, server in servers.items()}
        try:
            took.append(_death(str(folder / f"{run}"), stores, storage, lambda: dies.process.send_signal(how)))
        finally:
            if how is signal.SIGSTOP:
                dies.process.send_signal(signal.SIGCONT)
            else:
                dies.kill()
                dies.restart()
    return took


def _death(url: str, stores: dict[str, str], storage: dict[str, str], stop: Callable[[], object]) -> float:
    init_cluster(url, stores=stores, storage=storage, config={"replica.lag.time.max.ms": DEADLINE_MS})
    with sparklog.connect(url, storage=storage) as cluster:
        cluster.create_topic("t", assignment=[list(STORES)], config={"min.insync.replicas": 2})
        row = pa.table({"value": ["x"]})
        for _ in range(3):
            cluster.append("t", row)
        stop()
        begin = time.perf_counter()
        cluster.append("t", row)
        return time.perf_counter() - begin
