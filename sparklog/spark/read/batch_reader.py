"""A batch read: the driver plans it once, at one chain position, and tasks read directly from the stores.

    source.reader             options as strings -> ReadOptions (options/typed.py)
    BatchReader.partitions    ReadOptions -> client/plans/read_plan.plan_read -> a TaskToRead for each task, as bytes
    BatchReader.read          a TaskToRead -> task_to_read.read_range for each range -> log/read/scan.py -> batches

Spark plans the read in a Python process of its own beside the driver. A DataFrame keeps its plan forever, so a plan may
be older than any delete delay. A task that cannot find an object reads the chain again (`_replan` in task_to_read.py).
Tasks read the chain but never write it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sparklog.core.errors import SparklogError
from sparklog.log.read.read_errors import may_be_replaced
from sparklog.options.given import warning_of
from sparklog.options.typed import ReadOptions
from sparklog.spark.lazy_connection import shared
from sparklog.spark.read.input_partitions import input_partitions, read_task
from sparklog.spark.read.task_to_read import addresses_for
from sparklog.spark.schema import RECORDS_SCHEMA, columns_of

if TYPE_CHECKING:
    from sparklog.client.connection import Connection
    from sparklog.client.plans.read_plan import ReadPlan
    from sparklog.log.cluster_stores import StoreAddresses

log = logging.getLogger("sparklog")


class BatchReader(DataSourceReader):
    """Reads records in a batch. Spark pickles it before it calls `partitions`, and for each task."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """`schema` has the columns to read, in order. Raises InvalidInput if the log has no such columns."""
        self.columns = columns_of(schema, RECORDS_SCHEMA)
        self.options = options.for_tasks()

    def partitions(self) -> list[InputPartition]:
        """Plan the read. Return an InputPartition for each task, ordered by (topic, partition, offset).

        The list is empty if there is nothing to read.

        Raises InvalidOption, UnknownTopicOrPartition, OffsetOutOfRange, and the cluster's errors.
        """
        connection = shared(self.options.cluster, self.options.storage)
        try:
            plan, addresses = self._plan(connection)
        except SparklogError as error:
            if not may_be_replaced(error):
                raise
            plan, addresses = self._plan(connection)  # a roll replaced the object; the newer state names its successor
        warning = warning_of(self.options.ignored)
        for line in [*plan.warnings, *([warning] if warning is not None else [])]:
            log.warning("%s", line)
        return input_partitions(plan.tasks, addresses)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task's ranges, each range in offset order.

        Raises DataLoss, Damaged, and the stores' errors.
        """
        return read_task(partition, self.columns, fail_on_data_loss=self.options.fail_on_data_loss)

    def _plan(self, connection: Connection) -> tuple[ReadPlan, StoreAddresses]:
        from sparklog.client.plans.read_plan import plan_read

        state = connection.newest_state()
        stores, addresses = addresses_for(connection, state, self.options.zone)
        return plan_read(state, self.options, stores), addresses
