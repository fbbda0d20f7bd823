"""A query that was begun on Kafka continues on the mirror topic from its checkpoint, as if it had stayed on Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.peer_jars import kafka_connector
from sparklog.client.cluster import Cluster
from sparklog.core.types import KafkaTopic
from sparklog.log.stored_schema import HEADERS
from tests.jar import jar
from tests.servers.made_once import CannotFetch
from tests.spark.conftest import OneSpark
from tests.spark.mirror.kafka_topics import KafkaTopics

Rows = Callable[[DataFrame], DataFrame]
HALF = 60  # records written before the query stops, and after
KEYS = 7


def times(records: DataFrame) -> DataFrame:
    """The records with the event time that stands in their values."""
    return records.select(
        f.col("key").cast("string").alias("k"),
        f.timestamp_seconds(f.col("value").cast("string").cast("long")).alias("at"),
        "partition",
        "offset",
    )


def windows(window: str) -> Rows:
    """Counts by window, which is an expression of SQL."""
    return lambda records: times(records).withWatermark("at", "5 seconds").groupBy(f.expr(window), "k").count()


def joined(how: str) -> Rows:
    def rows(records: DataFrame) -> DataFrame:
        left = times(records).withWatermark("at", "5 seconds").alias("l")
        right = times(records).where("offset % 2 = 0").withWatermark("at", "5 seconds").alias("r")
        on = f.expr("l.k = r.k and r.at between l.at and l.at + interval 2 seconds")
        return left.join(right, on, how).select("l.k", "l.offset", f.col("r.offset").alias("other"))

    return rows


PROGRAMS: Mapping[str, tuple[Rows, str]] = {  # the rows of a query, and its output mode
    "all columns": (lambda records: records, "append"),
    "filter": (lambda records: records.where("offset % 3 = 1").select("topic", "offset", "value"), "append"),
    "headers": (lambda records: records.select("offset", f.explode_outer("headers")), "append"),
    "count": (lambda records: records.groupBy("key").count(), "complete"),
    "update": (lambda records: records.groupBy("key").agg(f.max("offset"), f.sum("partition")), "update"),
    "tumbling": (windows("window(at, '10 seconds')"), "append"),
    "sliding": (windows("window(at, '10 seconds', '4 seconds')"), "append"),
    "session": (windows("session_window(at, '3 seconds')"), "append"),
    "duplicates": (
        lambda records: times(records).withWatermark("at", "5 seconds").dropDuplicates(["k", "at"]).select("k", "at"),
        "append",
    ),
    "inner join": (joined("inner"), "append"),
    "outer join": (joined("left_outer"), "append"),
}
FEW = (("all columns", "stopped"), ("update", "crashed"))  # the others in the campaign
ENDS = ("stopped", "crashed", "small batches")  # how the part on Kafka ended, or how it went


@dataclass
class Output:
    """The rows of each micro-batch, which may come again after a crash."""

    batches: dict[int, list[str]] = field(default_factory=dict)

    def take(self, rows: DataFrame, number: int) -> None:
        self.batches[number] = [json.dumps(row.asDict(recursive=True), default=repr) for row in rows.collect()]

    def rows(self, mode: str) -> list[str]:
        """All rows; of those with a key, the last ones, if they replace each other."""
        if mode == "append":
            return sorted(row for rows in self.batches.values() for row in rows)
        last = {}
        for number in sorted(self.batches):
            for row in self.batches[number]:
                last[json.loads(row)["key"]] = row
        return sorted(last.values())


@pytest.fixture(scope="module", params=["java", "python"])
def session(one_spark: OneSpark, request: pytest.FixtureRequest) -> SparkSession:
    """One with Spark's Kafka connector, and one that reads mirror topics by Java, or by Python."""
    try:
        jars = [*kafka_connector(), *([jar()] if request.param == "java" else [])]
    except CannotFetch as error:
        pytest.skip(f"Kafka: {error}")
    from sparklog.spark import register

    made = one_spark.session("local[2]", **{"spark.jars": ",".join(map(str, jars))})
    register(made)
    return made


@dataclass
class Moved:
    """A query that is begun on Kafka, and continued on the mirrors of its topics."""

    spark: SparkSession
    kafka: KafkaTopics
    cluster: Cluster
    folder: Path

    def source(self, place: str, topics: str, **options: str) -> DataFrame:
        reader = self.spark.readStream.format(place).options(subscribe=topics, startingOffsets="earliest")
        reader = reader.option("kafka.bootstrap.servers", self.kafka.bootstrap).option("includeHeaders", "true")
        reader = reader.option("kafka.isolation.level", "read_committed")
        if place == "sparklog":
            reader = reader.option("cluster", self.cluster.connection.url)
        return reader.options(**options).load()

    def run(self, rows: DataFrame, mode: str, output: Output, checkpoint: str) -> None:
        """Run a query until it has taken everything that is there."""
        writer = rows.writeStream.outputMode(mode).foreachBatch(output.take)
        query = writer.option("checkpointLocation", str(self.folder / checkpoint)).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def crash(self, checkpoint: str) -> None:
        """Let it look as if the process had ended within the last micro-batch: it was planned, and not committed."""
        commits = self.folder / checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
        for file in (commits / str(last), commits / f".{last}.crc"):
            file.unlink(missing_ok=True)

    def mirror(self, topic: str) -> None:
        """Copy a topic, without the job."""
        records = self.kafka.read(topic)
        if topic not in self.cluster.topics():
            self.cluster.create_topic(topic, partitions=2, mirror_of=KafkaTopic("k", topic, "id"))
        headers = [
            None if each.headers is None else [{"key": key, "value": value} for key, value in each.headers]
            for each in records
        ]
        rows = pa.table(
            {
                "partition": [each.partition for each in records],
                "offset": [each.offset for each in records],
                "key": pa.array([each.key for each in records], pa.binary()),
                "value": pa.array([each.value for each in records], pa.binary()),
                "timestamp": pa.array([each.timestamp_ms for each in records]).cast(pa.timestamp("ms", "UTC")),
                "timestampType": [each.timestamp_type for each in records],
                "headers": pa.array(headers, HEADERS),
            }
        )
        starts = {p: self.next_offset(topic, p) for p in (0, 1)}
        new = [each.offset >= starts[each.partition] for each in records]
        ends = self.kafka.ends(topic)
        self.cluster.append(topic, rows.filter(pa.array(new)), keep_offsets=True, ends=ends)

    def next_offset(self, topic: str, partition: int) -> int:
        state = self.cluster.connection.newest_state()
        return int(state.partitions_of(state.topics[state.topic_ids[topic]])[partition].next_offset)


@pytest.fixture
def moved(session: SparkSession, kafka: KafkaTopics, cluster: Cluster, tmp_path: Path) -> Moved:
    return Moved(session, kafka, cluster, tmp_path)


def write(kafka: KafkaTopics, topic: str, first: int) -> None:
    """Records whose values are their event times in seconds, with gaps between them in Kafka."""
    for partition in (0, 1):
        records = [
            {
                "partition": partition,
                "key": b"%d" % (at % KEYS),
                "value": b"%d" % (at // 2),
                "headers": [("at", b"%d" % at)] if at % 3 == 0 else None,
            }
            for at in range(first, first + HALF)
        ]
        kafka.write(topic, records[: HALF // 2], transactional=True)
        kafka.abort(topic, records[:5])
        kafka.write(topic, records[HALF // 2 :], transactional=True)


CASES = [
    pytest.param(program, end, marks=() if (program, end) in FEW else pytest.mark.campaign)
    for program in PROGRAMS
    for end in ENDS
]


@pytest.mark.parametrize(("program", "end"), CASES)
def test_the_outputs_are_those_of_a_query_that_stayed_on_kafka(program: str, end: str, moved: Moved) -> None:
    rows, mode = PROGRAMS[program]
    options = {"maxOffsetsPerTrigger": "20"} if end == "small batches" else {}
    kafka, topic = moved.kafka, moved.kafka.create(2)
    stayed, continued = Output(), Output()
    write(kafka, topic, 0)
    for output, checkpoint in ((stayed, "stayed"), (continued, "continued")):
        moved.run(rows(moved.source("kafka", topic, **options)), mode, output, checkpoint)
    if end == "crashed":
        moved.crash("continued")
    write(kafka, topic, HALF)
    moved.run(rows(moved.source("kafka", topic, **options)), mode, stayed, "stayed")
    moved.mirror(topic)
    moved.run(rows(moved.source("sparklog", topic, **options)), mode, continued, "continued")
    assert continued.rows(mode) == stayed.rows(mode)
    assert len(stayed.rows(mode)) >= KEYS


def test_several_sources_of_one_query_continue_each_at_its_offsets(moved: Moved) -> None:
    topics = [moved.kafka.create(2) for _ in range(2)]
    output = Output()

    def rows(place: str) -> DataFrame:
        one, two = (moved.source(place, topic).select("topic", "partition", "offset") for topic in topics)
        return one.union(two)

    for topic in topics:
        write(moved.kafka, topic, 0)
    moved.run(rows("kafka"), "append", output, "checkpoint")
    write(moved.kafka, topics[1], HALF)
    for topic in topics:
        moved.mirror(topic)
    moved.run(rows("sparklog"), "append", output, "checkpoint")
    wanted = [{"topic": t, "partition": r.partition, "offset": r.offset} for t in topics for r in moved.kafka.read(t)]
    assert output.rows("append") == sorted(map(json.dumps, wanted))


def test_a_promoted_topic_continues_with_its_own_records(moved: Moved) -> None:
    topic, output = moved.kafka.create(2), Output()
    write(moved.kafka, topic, 0)
    moved.run(moved.source("kafka", topic).select("partition", "offset"), "append", output, "checkpoint")
    moved.mirror(topic)
    moved.cluster.promote_topic(topic)
    first = moved.next_offset(topic, 0)
    moved.cluster.append(topic, pa.table({"partition": [0], "value": [b"1"]}))
    moved.run(moved.source("sparklog", topic).select("partition", "offset"), "append", output, "checkpoint")
    assert len(output.rows("append")) == 2 * HALF + 1
    assert json.dumps({"partition": 0, "offset": first}) in output.rows("append")


def test_what_cannot_be_taken_is_refused_with_the_reason(moved: Moved) -> None:
    topic = moved.kafka.create(2)
    write(moved.kafka, topic, 0)
    moved.run(moved.source("kafka", topic).select("offset"), "append", Output(), "checkpoint")

    def refused(text: str) -> None:
        with pytest.raises(StreamingQueryException, match=text):
            moved.run(moved.source("sparklog", topic).select("offset"), "append", Output(), "checkpoint")

    moved.cluster.create_topic(topic, partitions=2)
    refused(f"topic {topic} here is no mirror of it")
    moved.cluster.delete_topic(topic)
    moved.cluster.create_topic(topic, partitions=2, mirror_of=KafkaTopic("k", topic, "id"))
    refused("the log here ends at 0: run the mirror until it has caught up")
    moved.mirror(topic)
    moved.run(moved.source("sparklog", topic).select("offset"), "append", Output(), "checkpoint")
