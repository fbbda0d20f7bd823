"""Real peers beside sparklog in one run: Apache Kafka through Spark's connector, and Delta Lake.

One broker runs on this machine with its defaults; the clients run with theirs, and tuned. All sides get the same rows
(8 B keys, 100 B values) and the same number of partitions, and each round runs all of them. sparklog and Kafka wait
for all replicas (`acks=all`; there is one here). sparklog syncs its files before it answers; Kafka and Delta Lake leave
that to the system.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparklog
from bench import peer_jars
from bench.paired import Comparison, compared, interleaved
from bench.process_cpu import all_stats, below, own_s, spent_s
from bench.spark_bulk import PARTITIONS, _drain, rows
from sparklog.client.bootstrap import init_cluster
from sparklog.spark.mirror.mirror_job import Source, run_mirror
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.made_once import CannotFetch

VALUE_BYTES = 100
RECORDS = 3_000_000  # a run takes about ten minutes on two cores
ROUNDS = 3
FEW = 1_000
KAFKA, DELTA = "Kafka", "Delta Lake"
TUNED_WRITE = {
    "kafka.batch.size": str(256 << 10),
    "kafka.linger.ms": "20",
    "kafka.buffer.memory": str(128 << 20),
}
TUNED_READ = {
    "kafka.max.poll.records": "50000",
    "kafka.fetch.max.bytes": str(32 << 20),
    "kafka.max.partition.fetch.bytes": str(32 << 20),
    "kafka.fetch.max.wait.ms": "10",
    "minPartitions": str(PARTITIONS),
}
LZ4 = {"kafka.compression.type": "lz4"}
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 by default: made for tables of millions of files
}

Sides = dict[str, Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Used:
    """What one run took: seconds by the clock, and processor seconds by who spent them."""

    wall_s: float
    jvm_s: float
    python_s: float
    broker_s: float


@dataclass(slots=True)
class PeerResults:
    """`costs`: the kind of run -> side -> its rounds. `skipped`: the name of a peer -> why it is not there.

    `records`: how many a bulk run moves. `rounds`: how often each side runs.
    """

    records: int
    rounds: int
    comparisons: list[Comparison] = field(default_factory=list)
    costs: dict[str, dict[str, list[Used]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    bulk_write: ClassVar = f"keyed write {VALUE_BYTES} B"
    bulk_read: ClassVar = f"read {VALUE_BYTES} B"

    def add(self, what: str, found: dict[str, list[Used]], pairs: Sequence[tuple[str, str, str]]) -> None:
        """Compare sides by name: (ours, the peer, the goal). Pairs without the peer are left out."""
        self.costs[what] = found
        for ours, peer, goal in pairs:
            if peer in found:
                ours_s, peer_s = ([used.wall_s for used in found[side]] for side in (ours, peer))
                label = what + ours.removeprefix("sparklog")
                self.comparisons.append(compared(label, peer, goal, ours_s, peer_s))


def available(skipped: dict[str, str]) -> dict[str, list[Path]]:
    """The JARs of each peer that this machine can get; the others go into `skipped`, with the reason."""
    found = {}
    for name, fetch in ((KAFKA, peer_jars.kafka_connector), (DELTA, peer_jars.delta)):
        try:
            found[name] = fetch()
        except CannotFetch as error:
            skipped[name] = str(error)
            print(f"{name} is skipped: {error}", flush=True)
    return found


def peers(
    session: Callable[[dict[str, str]], SparkSession], folder: Path, *, records: int = RECORDS, rounds: int = ROUNDS
) -> PeerResults:
    """Run everything, with the peers that this machine can get. What it starts ends with it, however it ends."""
    results = PeerResults(records, rounds)
    jars = available(results.skipped)
    if not jars:
        return results
    with ExitStack() as running:
        broker = None
        if KAFKA in jars:
            (folder / "kafka").mkdir()
            broker = running.enter_context(KafkaBroker(folder / "kafka", PARTITIONS))
        settings = {"spark.jars": ",".join(str(jar) for each in jars.values() for jar in each)}
        spark = session(settings | (DELTA_SETTINGS if DELTA in jars else {}))
        running.callback(spark.stop)
        run = _Run(spark, folder, broker, with_delta=DELTA in jars, records=records)
        run.writes(results, rounds)
        run.reads(results, rounds)
        if broker is not None:
            run.mirrors(results, rounds)
        run.small(results, 3 * rounds)
    return results


class _Run:
    """The sides of one run, by name."""

    def __init__(
        self, spark: SparkSession, folder: Path, broker: KafkaBroker | None, *, with_delta: bool, records: int
    ) -> None:
        self.spark = spark
        self.broker = broker
        self.with_delta = with_delta
        self.records = records
        self.cluster = str(folder / "sparklog")
        self.delta = folder / "delta"
        self.frame = rows(spark, VALUE_BYTES, records)
        init_cluster(self.cluster)
        self._jvm_pid = int(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]

    def writes(self, results: PeerResults, rounds: int) -> None:
        spark_rows = self.frame
        sides: Sides = {
            "rows only": lambda: _drain(spark_rows),
            "sparklog": self._sparklog_write("default", spark_rows),
            "sparklog, lz4": self._sparklog_write("lz4", spark_rows, compression="lz4"),
            "sparklog, not compressed": self._sparklog_write("none", spark_rows, compression="none"),
        }
        if self.broker is not None:
            sides[KAFKA] = self._kafka_write("default", spark_rows, {})
            sides[f"{KAFKA}, tuned"] = self._kafka_write("tuned", spark_rows, TUNED_WRITE)
            sides[f"{KAFKA}, tuned, lz4"] = self._kafka_write("lz4", spark_rows, TUNED_WRITE | LZ4)
        if self.with_delta:
            sides[DELTA] = self._delta_write("default", spark_rows)
            sides[f"{DELTA}, lz4"] = self._delta_write("lz4", spark_rows, compression="lz4")
        results.add(
            results.bulk_write,
            interleaved(sides, self.measured, rounds=rounds, warm_up=2),
            [
                ("sparklog", KAFKA, ""),
                ("sparklog", f"{KAFKA}, tuned", ">= 1.5"),
                ("sparklog, lz4", f"{KAFKA}, tuned, lz4", ">= 1.5"),
                ("sparklog, not compressed", f"{KAFKA}, tuned", ">= 1.5"),
                ("sparklog", DELTA, ">= 1.2"),
                ("sparklog, lz4", f"{DELTA}, lz4", ">= 1.2"),
            ],
        )

    def reads(self, results: PeerResults, rounds: int) -> None:
        """Read what the first write of each side wrote."""
        for name, compression in (("read", None), ("read-lz4", "lz4")):
            self._sparklog_write(name, self.frame, compression=compression)()
        of_topic = {name: self._sparklog_read(name) for name in ("read", "read-lz4")}
        two_columns = self._sparklog_read("read").option("columns", "key,value")
        sides: Sides = {
            "sparklog": lambda: _drain(of_topic["read"].load()),
            "sparklog, lz4": lambda: _drain(of_topic["read-lz4"].load()),
            "sparklog, key and value": lambda: _drain(two_columns.load()),
        }
        if self.broker is not None:
            self._kafka_write("read", self.frame, TUNED_WRITE)()
            self._kafka_write("read-lz4", self.frame, TUNED_WRITE | LZ4)()
            sides[KAFKA] = self._kafka_read("read", {})
            sides[f"{KAFKA}, tuned"] = self._kafka_read("read", TUNED_READ)
            sides[f"{KAFKA}, tuned, lz4"] = self._kafka_read("read-lz4", TUNED_READ)
        if self.with_delta:
            self._delta_write("read", self.frame)()
            sides[f"{DELTA}, key and value"] = lambda: _drain(self._delta_read("read"))
        results.add(
            results.bulk_read,
            interleaved(sides, self.measured, rounds=rounds, warm_up=2),
            [
                ("sparklog", KAFKA, ""),
                ("sparklog", f"{KAFKA}, tuned", ">= 5"),
                ("sparklog, lz4", f"{KAFKA}, tuned, lz4", ">= 5"),
                ("sparklog, key and value", f"{DELTA}, key and value", ""),
            ],
        )

    def mirrors(self, results: PeerResults, rounds: int) -> None:
        """The topics of `reads` copied from Kafka by the mirror job, beside the connector that only reads them."""
        sides: Sides = {}
        for name, topic in (("sparklog", "read"), ("sparklog, lz4", "read-lz4")):
            sides[name] = self._mirror(topic, rounds + 2)
        sides[f"{KAFKA}, tuned"] = self._kafka_read("read", TUNED_READ)
        sides[f"{KAFKA}, tuned, lz4"] = self._kafka_read("read-lz4", TUNED_READ)
        pairs = [("sparklog", f"{KAFKA}, tuned", ">= 0.9"), ("sparklog, lz4", f"{KAFKA}, tuned, lz4", ">= 0.9")]
        found = interleaved(sides, self.measured, rounds=rounds, warm_up=2)
        results.add(f"mirror {VALUE_BYTES} B, beside reading into nothing", found, pairs)

    def _mirror(self, topic: str, runs: int) -> Callable[[], None]:
        """Each run has a cluster of its own, made before the first."""
        assert self.broker is not None
        source = Source({"bootstrap.servers": self.broker.bootstrap}, (topic,))
        clusters = [f"{self.cluster}-{uuid.uuid4().hex}" for _ in range(runs)]
        for url in clusters:
            init_cluster(url)

        def run() -> None:
            report = run_mirror(clusters.pop(), source, lambda: self.spark)
            assert report.done.records == self.records

        return run

    def small(self, results: PeerResults, rounds: int) -> None:
        """1,000 records from the middle of one partition, and an append of 1,000 by one task."""
        start, end = self.records // 2, self.records // 2 + FEW
        first = self.frame.coalesce(1).withColumn("partition", f.lit(0))
        self._sparklog_write("middle", first)()
        bounds = {"startingOffsets": _offsets("middle", start), "endingOffsets": _offsets("middle", end)}
        middle = self._sparklog_read("middle").options(**bounds)
        reads: Sides = {"sparklog": lambda: _drain(middle.load())}
        few = self.spark.createDataFrame(self.frame.limit(FEW).toArrow()).coalesce(1).persist()
        few.count()
        appends: Sides = {"sparklog": self._sparklog_write("few", few)}
        if self.broker is not None:
            self._kafka_write("middle", first, TUNED_WRITE)()
            reads[KAFKA] = self._kafka_read("middle", bounds)
            reads[f"{KAFKA}, tuned"] = self._kafka_read("middle", bounds | TUNED_READ)
            appends[KAFKA] = self._kafka_write("few", few, {})
        if self.with_delta:
            numbered = self._sparklog_read("middle").option("columns", "offset,key,value").load()
            self._delta_write("middle", numbered)()
            reads[DELTA] = lambda: _drain(self._delta_read("middle").where(f.col("offset").between(start, end - 1)))
            appends[DELTA] = self._delta_write("few", few)
        what = f"read {FEW:,} records from the middle of {self.records:,}"
        found = interleaved(reads, self.measured, rounds=rounds, warm_up=3)
        goals = {KAFKA: ">= 2", f"{KAFKA}, tuned": ">= 2", DELTA: ""}
        results.add(what, found, [("sparklog", peer, goal) for peer, goal in goals.items()])
        found = interleaved(appends, self.measured, rounds=rounds, warm_up=3)
        results.add(f"append {FEW:,} records by one task", found, [("sparklog", peer, "") for peer in (KAFKA, DELTA)])

    def measured(self, run: Callable[[], object]) -> Used:
        """Python's time is that of the driver and of the workers, which are children of the JVM."""
        workers = below(self._jvm_pid, all_stats())
        jvm_s, broker_s, driver_s = own_s(self._jvm_pid), self._broker_s(), time.process_time()
        start_s = time.perf_counter()
        run()
        return Used(
            wall_s=time.perf_counter() - start_s,
            python_s=time.process_time() - driver_s + spent_s(workers, below(self._jvm_pid, all_stats())),
            jvm_s=own_s(self._jvm_pid) - jvm_s,
            broker_s=self._broker_s() - broker_s,
        )

    def _broker_s(self) -> float:
        return 0.0 if self.broker is None else own_s(self.broker.pid)

    # ---- sparklog ---------------------------------------------------------------------------------

    def _sparklog_write(self, topic: str, frame: DataFrame, *, compression: str | None = None) -> Callable[[], None]:
        with sparklog.connect(self.cluster) as cluster:
            cluster.create_topic(topic, partitions=PARTITIONS, config={"retention.ms": -1})
        writer = frame.write.format("sparklog").option("cluster", self.cluster).option("topic", topic)
        if compression is not None:
            writer = writer.option("compression", compression)
        return lambda: writer.mode("append").save()

    def _sparklog_read(self, topic: str):  # type: ignore[no-untyped-def]
        return self.spark.read.format("sparklog").option("cluster", self.cluster).option("subscribe", topic)

    # ---- Kafka ------------------------------------------------------------------------------------

    def _kafka_write(self, topic: str, frame: DataFrame, options: Mapping[str, str]) -> Callable[[], None]:
        assert self.broker is not None
        writer = frame.write.format("kafka").options(**options).option("kafka.acks", "all").option("topic", topic)
        return writer.option("kafka.bootstrap.servers", self.broker.bootstrap).mode("append").save

    def _kafka_read(self, topic: str, options: Mapping[str, str]) -> Callable[[], None]:
        assert self.broker is not None
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.broker.bootstrap)
        reader = reader.option("subscribe", topic).options(**options)
        return lambda: _drain(reader.load())

    # ---- Delta Lake -------------------------------------------------------------------------------

    def _delta_write(self, table: str, frame: DataFrame, *, compression: str | None = None) -> Callable[[], None]:
        writer = frame.write.format("delta")
        if compression is not None:
            writer = writer.option("compression", compression)
        path = str(self.delta / table)
        return lambda: writer.mode("append").save(path)

    def _delta_read(self, table: str) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.delta / table))


def _offsets(topic: str, at: int) -> str:
    """The position in partition 0; the other partitions are empty."""
    return json.dumps({topic: {str(partition): at if partition == 0 else 0 for partition in range(PARTITIONS)}})
