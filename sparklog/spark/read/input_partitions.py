"""Spark's input partitions for the tasks of a batch read or a micro-batch. Each carries a TaskToRead as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from sparklog.core.reading.plan import RangeToRead
from sparklog.log.cluster_stores import StoreAddresses
from sparklog.spark.read.task_to_read import TaskToRead, read_range
from sparklog.spark.spark_versions import plan_of


def input_partitions(tasks: Sequence[list[RangeToRead]], addresses: StoreAddresses) -> list[InputPartition]:
    """Return an InputPartition for each task. A task is the list of ranges that it reads."""
    return [InputPartition(msgspec.msgpack.encode(TaskToRead(addresses, ranges))) for ranges in tasks]


def read_task(
    partition: InputPartition | None, columns: tuple[str, ...], *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one task's ranges, each range in offset order.

    Raises DataLoss, Damaged, and the stores' errors.
    """
    plan = plan_of(partition)
    if plan is None:
        return
    task = msgspec.msgpack.decode(plan, type=TaskToRead)
    for range_ in task.ranges:
        yield from read_range(range_, task.addresses, columns, fail_on_data_loss=fail_on_data_loss)
