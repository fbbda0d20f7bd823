"""Rows that a task in Java hands to a planner, because Java can't write to the stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from sparklog.client.cluster import Cluster
from sparklog.client.plans.write_plan import TaskWritten
from sparklog.core.errors import SparklogError
from sparklog.log.stored_schema import RAW
from sparklog.options.typed import parse_write_options
from sparklog.spark.planner.row_requests import OpenWriters
from sparklog.spark.write.batch_writer import BatchWriter, TaskMessage, planned_writer

Ask = Callable[..., Any]


@pytest.fixture
def writers() -> OpenWriters:
    """Those of one planner."""
    return OpenWriters()


@pytest.fixture
def ask(writers: OpenWriters) -> Ask:
    """ask("rows", writer=…, …) -> the reply of this planner."""

    def asked(name: str, *, batch: bytes | None = None, **request: object) -> Any:
        rows = None if batch is None else memoryview(batch)
        return msgspec.json.decode(writers.answer(name, msgspec.json.encode({"name": name, **request}), rows))

    return asked


def planned(cluster: Cluster) -> BatchWriter:
    """A write whose rows name their topic."""
    schema = StructType().add("value", BinaryType()).add("topic", StringType())
    return planned_writer(parse_write_options({"cluster": cluster.connection.url}), schema)


def message(*values: str) -> bytes:
    """An Arrow message as Java sends it."""
    columns = [pa.nulls(len(values), field.type) for field in RAW.arrow]
    columns[1] = pa.array([value.encode() for value in values], pa.binary())
    columns[3] = pa.array([1] * len(values), RAW.arrow.field(3).type)
    batch = pa.RecordBatch.from_arrays(columns, schema=RAW.arrow)
    return batch.serialize().to_pybytes()


def topic_ids(cluster: Cluster) -> dict[str, int]:
    return {topic.name: topic.topic_id for topic in cluster.connection.newest_state().topics.values()}


def test_rows_are_committed_with_what_the_task_has_written(cluster: Cluster, ask: Ask) -> None:
    """Each batch goes to the partition that Java has chosen, in the order in which it came."""
    for name in "tu":
        cluster.create_topic(name, partitions=2)
    ids, writer = topic_ids(cluster), planned(cluster)
    number = ask("begin_rows", plan=writer.plan)
    for topic, partition, values in (("t", 1, "ab"), ("u", 0, "c"), ("t", 1, "d"), ("t", 0, "e")):
        ask("rows", writer=number, topic=ids[topic], partition=partition, batch=message(*values))
    written = msgspec.convert(ask("end_rows", writer=number), TaskWritten, strict=False)
    writer.commit([TaskMessage(0, "here", msgspec.msgpack.encode(written))])
    found = {(t, p): cluster.read(t, partition=p)["value"].to_pylist() for t in "tu" for p in (0, 1)}
    assert found == {("t", 0): [b"e"], ("t", 1): [b"a", b"b", b"d"], ("u", 0): [b"c"], ("u", 1): []}


def test_a_clock_that_java_has_filled_in_is_not_checked(cluster: Cluster, ask: Ask) -> None:
    """However old the plan is by now."""
    cluster.create_topic("t", partitions=1, config={"message.timestamp.before.max.ms": 1000})  # `message` has 1 us
    number = ask("begin_rows", plan=planned(cluster).plan)
    ask("rows", writer=number, topic=topic_ids(cluster)["t"], partition=0, batch=message("a"))
    assert msgspec.convert(ask("end_rows", writer=number), TaskWritten, strict=False).slices


def test_rows_that_are_dropped_end_their_upload(cluster: Cluster, writers: OpenWriters, ask: Ask) -> None:
    """A store may keep objects of it: nothing names them."""
    cluster.create_topic("t", partitions=1)
    number = ask("begin_rows", plan=planned(cluster).plan)
    ask("rows", writer=number, topic=topic_ids(cluster)["t"], partition=0, batch=message("a"))
    upload = writers._takers[number]._written
    assert ask("drop_rows", writer=number) is None
    assert type(upload.exception(timeout=60)).__name__ == "_Dropped"
    assert not writers._takers


def test_the_error_of_the_upload_is_that_of_the_task(cluster: Cluster, ask: Ask, tmp_path: Path) -> None:
    """Whether it comes with rows or at the end."""
    cluster.create_topic("t", partitions=1)
    writer, topic = planned(cluster), topic_ids(cluster)["t"]
    (tmp_path / "cluster" / "INCARNATION").unlink()
    number = ask("begin_rows", plan=writer.plan)

    def write() -> None:
        for _ in range(100):
            ask("rows", writer=number, topic=topic, partition=0, batch=message("a" * 1000))
        ask("end_rows", writer=number)

    with pytest.raises(SparklogError, match="INCARNATION"):
        write()
