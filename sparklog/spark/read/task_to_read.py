"""A task of a batch read or a micro-batch: ranges, each read directly from the stores. Does not import pyspark."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from sparklog.core.errors import ClusterNotFound, DataLoss, StoreAccessDenied, StoreUnavailable
from sparklog.core.reading.plan import RangeToRead
from sparklog.core.types import Offset
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.read.scan import scan
from sparklog.spark.lazy_connection import shared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparklog.client.connection import Connection
    from sparklog.core.state import ClusterState


class TaskToRead(msgspec.Struct, frozen=True):
    """The part of a task that the planner decides: the ranges to read, and the addresses of the stores."""

    addresses: StoreAddresses
    ranges: list[RangeToRead]


def addresses_for(connection: Connection, state: ClusterState, zone: str) -> tuple[Stores, StoreAddresses]:
    """Return the stores for the planner itself, and their addresses for its tasks. Reads by both prefer `zone`."""
    stores = connection.stores(state)
    nearest = stores.at(replace(stores.addresses, zone=zone))
    return nearest, replace(connection.addresses(state), zone=zone)


def read_range(
    range_: RangeToRead, addresses: StoreAddresses, columns: Sequence[str], *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in offset order. Raises DataLoss, Damaged, and the stores' errors."""
    return scan(
        range_,
        Stores(addresses),
        columns,
        partial(_replan, addresses),
        fail_on_data_loss=fail_on_data_loss,
        skip_option="failOnDataLoss=false",
    )


def _replan(addresses: StoreAddresses, plan: RangeToRead, at: Offset) -> RangeToRead:
    """Return a new plan for the rest of `plan`, from offset `at` on.

    The new plan comes from the chain itself: a task never asks a coordinator. Raises InconsistentClusterId,
    UnknownTopicOrPartition (the topic was deleted), UnknownLeaderEpoch, and errors of reading the chain.
    """
    where = f"{plan.topic}-{plan.partition} from offset {at} on"
    try:
        return shared(addresses.cluster, addresses.settings).replan(plan, at)
    except ClusterNotFound as error:
        raise DataLoss(
            f"{where}: {error.message}; this task ran on "
            f"{socket.gethostname()}: a file:// cluster needs a path that the driver and all executors share"
        ) from error
    except (StoreUnavailable, StoreAccessDenied) as error:
        raise type(error)(
            f"{where}: its object was replaced since the read was planned, and the task on {socket.gethostname()} "
            f"can't read the chain at {addresses.cluster} to find the new object: {error.message}; plan the read "
            "again, or let executors read the metadata"
        ) from error
