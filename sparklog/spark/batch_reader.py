"""A batch read: the driver plans it once, at one chain position, and tasks read straight from the stores.

    BatchReader.partitions (planner) -> one InputPartition per task -> BatchReader.read (each task)

A DataFrame keeps its plan for life, so a plan may be older than any delete delay. A task that cannot find an object
asks the chain again (`log/scan`). Tasks read the chain but never write it.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from functools import partial

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sparklog.client.connection import Connection, shared
from sparklog.client.read_plan import ReadPlan, plan_read
from sparklog.core.errors import ClusterNotFound, DataLoss, SparklogError, StoreAccessDenied, StoreUnavailable
from sparklog.core.plan import RangeToRead
from sparklog.core.types import Offset
from sparklog.log.read_errors import may_be_replaced
from sparklog.log.scan import scan
from sparklog.log.stores import StorePlaces, Stores
from sparklog.options.given import warning_of
from sparklog.options.typed import ReadOptions
from sparklog.spark.schema import RECORDS_SCHEMA, columns_of

log = logging.getLogger("sparklog")


class TaskToRead(msgspec.Struct, frozen=True):
    """What one task reads and from where: everything that is known only when the read is planned."""

    places: StorePlaces
    ranges: list[RangeToRead]


class BatchReader(DataSourceReader):
    """Reads records. It is pickled to the tasks, and Spark also pickles it before it calls `partitions`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """`schema` has the columns to read, in order. Raises InvalidInput if the log has no such columns."""
        self.columns = columns_of(schema, RECORDS_SCHEMA)
        self.options = options.for_tasks()

    def partitions(self) -> list[InputPartition]:
        """A partition for each task, ordered by (topic, partition, offset); none if there is nothing to read.

        Raises InvalidOption, UnknownTopicOrPartition, OffsetOutOfRange, and the cluster's errors.
        """
        connection = shared(self.options.cluster, self.options.storage)
        try:
            plan, places = self._plan(connection)
        except SparklogError as error:
            if not may_be_replaced(error):
                raise
            plan, places = self._plan(connection)  # a roll replaced the object, and a newer state names its successor
        warning = warning_of(self.options.ignored)
        for line in [*plan.warnings, *([warning] if warning is not None else [])]:
            log.warning("%s", line)
        return [InputPartition(msgspec.msgpack.encode(TaskToRead(places, task))) for task in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The ranges of one task, each in offset order. Raises DataLoss, Damaged, and the stores' errors."""
        if partition.value is None:  # Spark's form of a plan without tasks
            return
        task = msgspec.msgpack.decode(partition.value, type=TaskToRead)
        stores = Stores(task.places)
        replan = partial(_replan, task.places)
        for range_ in task.ranges:
            yield from scan(range_, stores, self.columns, replan, fail_on_data_loss=self.options.fail_on_data_loss)

    def _plan(self, connection: Connection) -> tuple[ReadPlan, StorePlaces]:
        with connection.follower.current() as state:
            stores = connection.stores(state)
            nearest = stores.at(replace(stores.places, zone=self.options.zone))
            places = replace(connection.places(state), zone=self.options.zone)
            return plan_read(state, self.options, nearest), places


def _replan(places: StorePlaces, plan: RangeToRead, at: Offset) -> RangeToRead:
    """A new plan, by the chain itself: a task asks no coordinator. Raises as `Connection.replan`."""
    where = f"{plan.topic}-{plan.partition} from offset {at} on"
    try:
        return shared(places.cluster, places.settings).replan(plan, at)
    except ClusterNotFound as error:
        raise DataLoss(
            f"{where}: {error.message}; this task ran on "
            f"{socket.gethostname()}: a file:// cluster needs a path that the driver and all executors share"
        ) from error
    except (StoreUnavailable, StoreAccessDenied) as error:
        raise type(error)(
            f"{where}: its object was replaced since the read was planned, and the task on {socket.gethostname()} "
            f"can't read the chain at {places.cluster} to find the new one: {error.message}; plan the read again, or "
            "let executors read the metadata"
        ) from error
