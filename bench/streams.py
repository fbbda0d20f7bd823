"""Streams: micro-batches from topic to topic beside a bare source and sink, how long a query takes to begin and end,
and how long a record is on its way.

python -m bench.streams                              prints a line per figure
python -m bench.streams FOLDER log|bare|kafka        prints the seconds of each of the first queries of a session

`beside_kafka` compares with Spark's Kafka connector and a broker, if this machine can get them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import sparklog
from bench.bare_stream import FILES, BareStream, file_of
from bench.paired import Comparison, compared, interleaved
from bench.peer_jars import kafka_connector
from bench.session import session
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from tests.servers.kafka_broker import KafkaBroker, kafka_jars
from tests.servers.made_once import CannotFetch

PARTITIONS = 2
ROWS = 500  # of a partition in a micro-batch
BATCHES = 20  # in a run
ROUNDS = 3
RECORDS = 60  # that are sent one after the other
PAUSE_S = 0.002  # between two looks for a record
STARTS = 5  # sessions, in which one query follows another
QUERIES = ("first", "second", "third")  # of a session
KAFKA = "Spark's Kafka connector"
BOOTSTRAP = "kafka-bootstrap"  # the file with the address of the broker


def streams(
    folder: Path, batches: int = BATCHES, rounds: int = ROUNDS
) -> tuple[list[Comparison], list[tuple[str, str]]]:
    """Comparisons, and figures: (what was measured, its figure)."""
    spark = _session(folder)
    try:
        comparisons, figures = measured(spark, folder, batches, rounds)
    finally:
        spark.stop()
    return comparisons + starts(folder / "starts"), figures


def beside_kafka(
    folder: Path, batches: int = BATCHES, rounds: int = ROUNDS, records: int = RECORDS
) -> tuple[list[Comparison], list[tuple[str, str]]]:
    """As `streams`: first queries, micro-batches, and a record's way, beside the connector. Empty if it can't be had.

    It needs a JVM of its own: a running one takes no connector.
    """
    (folder / "broker").mkdir()
    try:
        jars = ",".join(map(str, kafka_connector()))
        kafka_jars()
    except CannotFetch as error:
        print(f"Kafka is skipped: {error}", flush=True)
        return [], []
    with KafkaBroker(folder / "broker", PARTITIONS) as broker:
        (folder / BOOTSTRAP).write_text(broker.bootstrap)
        url = str(folder / "streams")
        init_cluster(url)
        spark = _session(folder, jars)
        try:
            with sparklog.connect(url) as cluster:
                _fill(cluster, 1)
                _fill_kafka(spark, broker.bootstrap, 1)
                queries: dict[str, Callable[[], object]] = {
                    side: partial(_own_session, folder, side) for side in ("log", "kafka")
                }
                first = interleaved(queries, _printed, rounds=STARTS, warm_up=1)
                _append(cluster, batches - 1)
                _append_to_kafka(spark, broker.bootstrap, "in", (batches - 1) * PARTITIONS * ROWS)
                ours, theirs = {"cluster": url, "topic": "out"}, _kafka_sink(broker.bootstrap, "out")
                sides: dict[str, Callable[[], object]] = {
                    "log": partial(_run, lambda: _from_log(spark, url), "sparklog", ours, folder),
                    "kafka": partial(_run, lambda: _from_kafka(spark, broker.bootstrap), "kafka", theirs, folder),
                }
                took = interleaved(sides, _latencies, rounds=rounds, warm_up=1)
                least = min(len(run) for runs in took.values() for run in runs)
                micro_batches = {name: [one for run in runs for one in run[:least]] for name, runs in took.items()}
                ways = {"log": _ways(spark, cluster, folder, records)}
                ways["kafka"] = _ways_of_kafka(spark, broker.bootstrap, folder, records)
        finally:
            spark.stop()
    what = f"micro-batch of {PARTITIONS * ROWS:,} records, topic to topic, beside Kafka"
    found = [compared(what, KAFKA, ">= 1", micro_batches["log"], micro_batches["kafka"])]
    found.append(
        compared("a record from topic to topic, until a reader sees it", KAFKA, ">= 1", ways["log"], ways["kafka"])
    )
    what = f"query of a session, availableNow, {PARTITIONS * ROWS:,} records, beside Kafka"
    found += [
        compared(f"{name} {what}", KAFKA, goal, *([run[at] for run in runs] for runs in first.values()))
        for at, (name, goal) in enumerate(zip(QUERIES, (">= 0.83", ">= 1", ">= 1"), strict=True))
    ]
    return found, []


def starts(folder: Path, rounds: int = STARTS) -> list[Comparison]:
    """How long the queries of a session take with trigger(availableNow=True). Each session is a process of its own.

    Spark starts a Python process for each thing that it asks a source or a sink written in Python: the first query
    waits for all of them. Those of the bare source and sink import nothing but Spark and Arrow.
    """
    folder.mkdir()
    init_cluster(str(folder / "streams"))
    _fill_bare(folder, 1)
    with sparklog.connect(str(folder / "streams")) as cluster:
        _fill(cluster, 1)
    sides: dict[str, Callable[[], object]] = {side: partial(_own_session, folder, side) for side in ("log", "bare")}
    took = interleaved(sides, _printed, rounds=rounds, warm_up=1)
    what = f"query of a session, availableNow, {PARTITIONS * ROWS:,} records"
    return [
        compared(f"{name} {what}", "bare source and sink", "", *([run[at] for run in runs] for runs in took.values()))
        for at, name in enumerate(QUERIES)
    ]


def _own_session(folder: Path, side: str) -> str:
    run = [sys.executable, "-m", "bench.streams", str(folder), side]
    return subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout


def _printed(run: Callable[[], object]) -> list[float]:
    found: list[float] = json.loads(str(run()))
    return found


def _queries(folder: Path, side: str) -> None:
    """Run the queries of one session, and print how many seconds each took."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        jars = ",".join(map(str, kafka_connector())) if side == "kafka" else ""
        spark, url = _session(Path(own), jars), str(folder / "streams")
        kinds = {"log": "sparklog", "bare": "bare_stream", "kafka": "kafka"}
        took = []
        for _ in QUERIES:
            match side:
                case "log":
                    rows, sink = _from_log(spark, url), {"cluster": url, "topic": "out"}
                case "kafka":
                    bootstrap = (folder / BOOTSTRAP).read_text()
                    rows, sink = _from_kafka(spark, bootstrap), _kafka_sink(bootstrap, "out")
                case _:
                    rows, sink = _from_files(spark, folder, 1), {"path": own}
            writer = rows.select("key", "value").writeStream.format(kinds[side])
            writer = writer.options(**sink).option("checkpointLocation", tempfile.mkdtemp(dir=own))
            begun = time.perf_counter()
            writer.trigger(availableNow=True).start().awaitTermination()
            took.append(time.perf_counter() - begun)
        spark.stop()
    print(json.dumps(took))


def _session(folder: Path, jars: str = "") -> SparkSession:
    spark = session(folder, {"spark.sql.shuffle.partitions": "2", "spark.jars": jars})
    spark.dataSource.register(BareStream)
    return spark


def measured(
    spark: SparkSession, folder: Path, batches: int, rounds: int, records: int = RECORDS
) -> tuple[list[Comparison], list[tuple[str, str]]]:
    """As `streams`, in a session that knows the bare stream."""
    url = str(folder / "streams")
    init_cluster(url)
    _fill_bare(folder, batches)
    with sparklog.connect(url) as cluster:
        _fill(cluster, batches)
        log = partial(_run, lambda: _from_log(spark, url), "sparklog", {"cluster": url, "topic": "out"}, folder)
        both = {**{"cluster": url, "topic": "out"}, "groupId": "bench"}
        grouped = partial(_run, lambda: _from_log(spark, url), "sparklog", both, folder)
        bare = partial(_run, lambda: _from_files(spark, folder, batches), "bare_stream", {"path": str(folder)}, folder)
        sides: dict[str, Callable[[], object]] = {"log": log, "grouped": grouped, "bare": bare}
        took = interleaved(sides, _latencies, rounds=rounds, warm_up=1)
        least = min(len(run) for runs in took.values() for run in runs)  # micro-batches that every run has
        latencies_s = {name: [one for run in runs for one in run[:least]] for name, runs in took.items()}
        shown = f"micro-batch of {PARTITIONS * ROWS:,} records"
        comparisons = [
            compared(
                f"{shown}, topic to topic", "bare source and sink", ">= 0.8", latencies_s["log"], latencies_s["bare"]
            ),
            compared(
                f"{shown}, topic to topic with the offsets of a group",
                "without a group",
                "",
                latencies_s["grouped"],
                latencies_s["log"],
            ),
        ]
        figures = [(f"{shown}: {name}", _percentiles(found)) for name, found in latencies_s.items()]
        figures.append(
            (
                "a record from topic to topic, until a reader sees it",
                _percentiles(_ways(spark, cluster, folder, records)),
            )
        )
    for what, figure in figures:
        print(f"{what}: {figure}", flush=True)
    return comparisons, figures


def _fill(cluster: Cluster, batches: int) -> None:
    for topic in ("in", "out", "one", "another"):
        cluster.create_topic(topic, partitions=PARTITIONS, config={"retention.ms": -1})
    _append(cluster, batches)


def _append(cluster: Cluster, batches: int) -> None:
    for _ in range(batches):
        for partition in range(PARTITIONS):
            values = pa.array([b"x" * 100] * ROWS, pa.binary())
            cluster.append("in", pa.table({"value": values, "partition": pa.array([partition] * ROWS, pa.int32())}))


def _fill_bare(folder: Path, batches: int) -> None:
    stamp = pa.array([0] * ROWS, pa.timestamp("us", "UTC"))
    columns = {
        "key": pa.nulls(ROWS, pa.binary()),
        "value": pa.array([b"x" * 100] * ROWS, pa.binary()),
        "topic": pa.array(["in"] * ROWS),
        "partition": pa.array([0] * ROWS, pa.int32()),
        "offset": pa.array(range(ROWS), pa.int64()),
        "timestamp": stamp,
        "timestampType": pa.array([0] * ROWS, pa.int32()),
    }
    batch = pa.record_batch(columns)
    (folder / FILES).mkdir()
    for number in range(batches * PARTITIONS):
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(str(file_of(str(folder), number)), batch.schema, options=options) as writer:
            writer.write_batch(batch)


def _from_log(spark: SparkSession, url: str) -> DataFrame:
    source = spark.readStream.format("sparklog").option("cluster", url).option("subscribe", "in")
    return source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", PARTITIONS * ROWS).load()


def _from_files(spark: SparkSession, folder: Path, batches: int) -> DataFrame:
    source = spark.readStream.format("bare_stream").option("path", str(folder)).option("tasks", PARTITIONS)
    return source.option("files", batches * PARTITIONS).load()


def _from_kafka(spark: SparkSession, bootstrap: str, topic: str = "in") -> DataFrame:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", PARTITIONS * ROWS).load()


def _kafka_sink(bootstrap: str, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "topic": topic}


def _fill_kafka(spark: SparkSession, bootstrap: str, batches: int) -> None:
    """Give the broker as many records as the log has. A first write makes a topic, with PARTITIONS partitions."""
    for topic, count in (("in", batches * PARTITIONS * ROWS), ("out", 1), ("one", 1), ("another", 1)):
        _append_to_kafka(spark, bootstrap, topic, count)


def _append_to_kafka(spark: SparkSession, bootstrap: str, topic: str, count: int) -> None:
    columns = ("repeat('x', 100) as value", f"cast(id % {PARTITIONS} as int) as partition")
    spark.range(count).selectExpr(*columns).write.format("kafka").options(**_kafka_sink(bootstrap, topic)).save()


def _ways_of_kafka(spark: SparkSession, bootstrap: str, folder: Path, records: int) -> list[float]:
    """As `_ways`, by the clients that Spark brings for Kafka: those of its JVM."""
    jvm = spark._jvm
    assert jvm is not None
    names = "org.apache.kafka.common.serialization"
    settings = jvm.java.util.HashMap()
    for side, kind in (
        ("key", "serializer"),
        ("value", "serializer"),
        ("key", "deserializer"),
        ("value", "deserializer"),
    ):
        settings.put(f"{side}.{kind}", f"{names}.String{kind.capitalize()}")
    settings.put("bootstrap.servers", bootstrap)
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    places = jvm.java.util.ArrayList()
    for partition in range(PARTITIONS):
        places.add(jvm.org.apache.kafka.common.TopicPartition("another", partition))
    source = spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": "one"})
    sink = source.load().select("key", "value").writeStream.format("kafka").options(**_kafka_sink(bootstrap, "another"))
    query = sink.option("checkpointLocation", str(folder / "ways-kafka")).start()
    took = []
    try:
        query.processAllAvailable()
        before = sum(consumer.endOffsets(places).values())
        for number in range(records + 5):
            begun = time.perf_counter()
            producer.send(jvm.org.apache.kafka.clients.producer.ProducerRecord("one", "x")).get()
            while sum(consumer.endOffsets(places).values()) <= before + number:
                time.sleep(PAUSE_S)
            took.append(time.perf_counter() - begun)
    finally:
        query.stop()
        producer.close()
        consumer.close()
    return took[5:]


def _run(rows: Callable[[], DataFrame], sink: str, options: dict[str, str], folder: Path) -> StreamingQuery:
    """A query that did all that there was; each run has a checkpoint of its own."""
    checkpoint = tempfile.mkdtemp(dir=folder)
    writer = rows().select("key", "value").writeStream.format(sink).options(**options)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    query.stop()
    return query


def _latencies(run: Callable[[], object]) -> list[float]:
    """How long each micro-batch of a run took, in seconds, but for the first: it opens everything."""
    query = run()
    assert isinstance(query, StreamingQuery)
    took = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress if progress["numInputRows"]]
    return [ms / 1000 for ms in took[1:]]


def _ways(spark: SparkSession, cluster: Cluster, folder: Path, records: int) -> list[float]:
    """For each of some records: the seconds from before its append to when it is visible in the other topic."""
    url = cluster.connection.url
    source = spark.readStream.format("sparklog").option("cluster", url).option("subscribe", "one")
    sink = source.load().select("key", "value").writeStream.format("sparklog").option("cluster", url)
    query = sink.option("topic", "another").option("checkpointLocation", str(folder / "ways")).start()
    took = []
    try:
        query.processAllAvailable()
        for number in range(records + 5):
            begun = time.perf_counter()
            cluster.append("one", pa.table({"value": ["x"]}))
            while sum(each.high_watermark for each in cluster.describe("another").partitions) <= number:
                if query.exception() is not None:
                    raise AssertionError(query.exception())
                time.sleep(PAUSE_S)
            took.append(time.perf_counter() - begun)
    finally:
        query.stop()
    return took[5:]


def _percentiles(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"p50 {statistics.median(ordered) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms ({len(ordered)})"


def main() -> None:
    if len(sys.argv) > 1:
        return _queries(Path(sys.argv[1]), sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        streams(Path(name))
    return None


if __name__ == "__main__":
    main()
