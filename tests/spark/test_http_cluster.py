"""A cluster that the driver knows by coordinators: only the driver talks to them, tasks go to the stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructType

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from sparklog.core.errors import SparklogError, StoreAccessDenied, StoreUnavailable
from sparklog.options.typed import parse_read_options, parse_write_options
from sparklog.spark.read import task_to_read
from sparklog.spark.read.batch_reader import BatchReader
from sparklog.spark.read.task_to_read import TaskToRead
from sparklog.spark.schema import RECORDS_SCHEMA
from sparklog.spark.write.batch_writer import begin_write
from sparklog.storage.keys import data_key
from sparklog.storage.open_store import open_store
from tests.client.shared_connections import forget_shared
from tests.coordinator.served_coordinator import ServedCoordinator, served_coordinator

HIDDEN = "file:///where/no/task/can/read"
ROWS = pa.record_batch({"value": pa.array([b"0", b"1"])})


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[ServedCoordinator]:
    """A coordinator of a cluster with topic t. Its store is a folder; its metadata is where nobody else can read."""
    metadata = f"file://{tmp_path}/metadata"
    init_cluster(metadata, stores={"a": f"file://{tmp_path}/data"})
    with connect(metadata) as cluster:
        cluster.create_topic("t", partitions=1)
    with served_coordinator(HIDDEN, store=open_store(metadata)) as served:
        yield served
    forget_shared()


def written(address: str) -> None:
    """Two records, as a driver and a task write them."""
    options = parse_write_options({"cluster": address, "topic": "t"})
    writer = begin_write(options, StructType().add("value", BinaryType()))
    writer.commit([writer.write(iter([ROWS]))])


def reader_of(address: str) -> BatchReader:
    return BatchReader(parse_read_options({"cluster": address, "subscribe": "t"}), RECORDS_SCHEMA)


def test_a_write_and_a_read_need_no_access_to_the_metadata(coordinator: ServedCoordinator) -> None:
    written(coordinator.address)
    reader = reader_of(coordinator.address)
    (task,) = reader.partitions()
    (batch,) = reader.read(task)
    assert batch.column(reader.columns.index("value")).to_pylist() == [b"0", b"1"]


def test_a_task_never_asks_a_coordinator(coordinator: ServedCoordinator) -> None:
    written(coordinator.address)
    reader = reader_of(coordinator.address)
    (task,) = reader.partitions()
    coordinator.stop()
    (batch,) = reader.read(task)
    assert batch.num_rows == 2
    assert msgspec.msgpack.decode(task.value, type=TaskToRead).addresses.cluster == HIDDEN


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreAccessDenied])
def test_a_task_that_has_to_plan_again_and_can_not_read_the_chain_says_what_to_do(
    coordinator: ServedCoordinator, monkeypatch: pytest.MonkeyPatch, kind: type[SparklogError]
) -> None:
    written(coordinator.address)
    reader = reader_of(coordinator.address)
    (task,) = reader.partitions()
    (range_,) = msgspec.msgpack.decode(task.value, type=TaskToRead).ranges
    with connect(coordinator.address) as cluster:
        store = cluster.connection.stores(cluster.connection.follower.state)
        for part in range_.slices:
            store.get(part.stores[0]).delete(data_key(part.object.object, range_.topic))

    def unreachable(url: str, settings: object) -> object:
        raise kind(f"{url} does not let anybody in")

    monkeypatch.setattr(task_to_read, "shared", unreachable)
    with pytest.raises(kind, match="plan the read again, or let executors read the metadata") as raised:
        list(reader.read(task))
    assert "t-0 from offset 0 on: its object was replaced since the read was planned" in str(raised.value)
