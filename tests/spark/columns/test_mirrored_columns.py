"""Mirror topics by Java: the rows that Python reads, before and after rolls and promotion."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.core.placement.held_slices import named_object
from sparklog.core.row_offsets import is_dense
from sparklog.log.read.object_reader import read_index
from sparklog.log.stored_schema import RAW_WITH_OFFSETS
from sparklog.log.write import task_memory
from sparklog.storage.keys import data_key
from tests.client.mirrored_topic import MirroredTopic
from tests.spark.columns.conftest import Both
from tests.spark.rewriting import roll_and_delete

pytestmark = pytest.mark.spark
SMALL_OBJECTS = task_memory.WriterLimits(
    gather_rows=16,
    gather_rows_per_partition=1,
    most_gathered_rows=40,
    gather_bytes=2_000,
    full_batch_bytes=600,
    smallest_full_batch_bytes=300,
    object_bytes=2_000,
    pinned_in_vain_bytes=1_000,
    live_bytes=8_000,
)


@pytest.fixture
def topic(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> MirroredTopic:
    """A mirror topic whose large writes are cut into several objects."""
    monkeypatch.setattr("sparklog.log.write.objects_writer.TaskObjects.__init__.__defaults__", (SMALL_OBJECTS,))
    return MirroredTopic(cluster).create(partitions=2)


def filled(topic: MirroredTopic) -> None:
    """Gaps, dense runs, and dense slices whose objects store offsets, with both kinds of timestamps."""
    topic.append([2, 3, 9], end=12, kinds=[0, 1, 1])
    topic.append(range(12, 20), kinds=[0] * 4 + [1] * 4)
    topic.append([*range(20, 400), 410], end=1_000)  # cut into objects that store offsets, most of them dense slices
    topic.append([10**9, 10**9 + 1], kinds=[1, 0])
    topic.append([0, 7], partition=1)


def dense_with_stored_offsets(cluster: Cluster) -> int:
    """The number of slices of topic t of which every offset has a record, in objects that store offsets."""
    state, store = cluster.connection.newest_state(), cluster.connection.follower.store
    named = [(each, named_object(state, each)) for each in state.slices.everything()]
    return sum(
        is_dense(slice_) and read_index(store, data_key(object_.object, "t"), object_).object_schema is RAW_WITH_OFFSETS
        for slice_, object_ in named
    )


def offsets(topic: MirroredTopic, partition: int, start: int, end: int) -> list[int]:
    return sorted(topic.left(partition, start, end))


def read_offsets(rows: list[tuple[Any, ...]]) -> list[int]:
    return sorted(row[0] for row in rows)


def test_java_reads_mirrored_topics_offset_for_offset(topic: MirroredTopic, both: Both) -> None:  # M: S-03
    """Random ranges, which begin and end in gaps, of random columns: appended, rolled, and promoted."""
    filled(topic)
    assert dense_with_stored_offsets(topic.cluster) > 2
    dice = random.Random(5)
    edges = [0, 1, 2, 4, 9, 10, 12, 16, 20, 33, 150, 399, 405, 411, 999, 1_000, 10**6, 10**9, 10**9 + 1, 10**9 + 2]
    every = ("key", "value", "partition", "timestamp", "timestampType", "headers")
    for _ in range(3):
        high = topic.ends[0]
        count = sum(map(len, topic.model.values()))
        assert len(both("t", includeHeaders="true")) == len(both("t", columns="offset")) == count
        assert len(both("t", columns="timestamp")) == len(both("t", columns="partition")) == count
        for _ in range(6):
            start, end = sorted(min(dice.choice(edges), high) for _ in range(2))
            some = ",".join(["offset", *dice.sample(every, dice.randrange(len(every)))])
            rows = both(
                "t",
                columns=some,
                startingOffsets=f'{{"t":{{"0":{start},"1":8}}}}',
                endingOffsets=f'{{"t":{{"0":{end},"1":8}}}}',
                maxRecordsPerPartition=dice.choice([1, 50, 1_000]),
                minPartitions=dice.choice([1, 3]),
            )
            assert read_offsets(rows) == offsets(topic, 0, start, end)
        if topic.cluster.describe("t").mirror_of is None:
            break
        roll_and_delete(topic.cluster, "t")
        topic.promote({0: 10**12, 1: 20})
        topic.append_after(["a", "b"])
        edges += [10**10, 10**12, 10**12 + 1, 10**12 + 2]


def test_java_finds_times_of_mirrored_topics(topic: MirroredTopic, both: Both) -> None:  # M: S-05
    filled(topic)
    topic.promote({0: 10**12, 1: 20})
    topic.append_after(["a", "b"])
    for seconds in (1_000, 1_050, 1_210, 4_000):
        rows = both(
            "t",
            columns="offset,partition",
            startingTimestamp=seconds * 1_000,
            startingOffsetsByTimestampStrategy="latest",
        )
        for partition in range(2):
            of = topic.model[partition]
            first = min((at for at, record in of.items() if record.time_us >= seconds * 1_000_000), default=10**13)
            found = [row for row in rows if row[1] == partition]
            assert read_offsets(found) == offsets(topic, partition, first, 10**13)


@pytest.mark.parametrize("reader", ["columns", "rows"])
def test_a_stream_passes_the_gaps_of_a_mirrored_topic_and_its_promotion(
    topic: MirroredTopic, columnar: SparkSession, tmp_path: Path, reader: str
) -> None:
    topic.cluster.create_topic("out", partitions=1)
    filled(topic)

    def copied(**options: object) -> list[int]:
        """The numbers of records in the micro-batches of the next run."""
        given = {"subscribe": "t", "startingOffsets": "earliest", "reader": reader, "failOnDataLoss": "true"} | options
        asked = columnar.readStream.format("sparklog").option("cluster", topic.cluster.connection.url)
        rows = asked.options(**{name: str(value) for name, value in given.items()}).load()
        writer = (
            rows.selectExpr("cast(offset as string) as value").writeStream.format("sparklog").option("topic", "out")
        )
        query = (
            writer.option("cluster", topic.cluster.connection.url)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [each.numInputRows for each in query.recentProgress if each.numInputRows]

    assert sum(copied()) == len(topic.model[0]) + len(topic.model[1])
    topic.append([10**9 + 10, 10**9 + 20], end=10**9 + 30)
    assert sum(copied()) == 2
    topic.promote({0: 10**12, 1: 20})
    assert copied() == [], "there is nothing in a gap"
    topic.append_after([str(number) for number in range(5)])
    limited = copied(maxOffsetsPerTrigger=2)
    assert sum(limited) == 5
    assert len(limited) < 6
    values = sorted(int(value) for value in topic.cluster.read("out", partition=0)["value"].to_pylist())
    assert values == sorted([*topic.model[0], *topic.model[1]])
