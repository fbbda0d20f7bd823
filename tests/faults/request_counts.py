"""How many requests of each kind an operation sends to an S3 server: what sparklog/core/cost/request_costs.py says.

python -m tests.faults.request_counts     measures, and prints the numbers
"""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pytest

from sparklog.chain.commit.committer import new_command_id
from sparklog.chain.follow import same_chain
from sparklog.client import bootstrap
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import append_command, plan_write
from sparklog.core.commands import Submission
from sparklog.log.read import object_reader
from sparklog.storage.s3.client import forget_clients
from tests.servers.fault_proxy import FaultProxy
from tests.servers.fault_proxy_rules import Request
from tests.servers.s3_servers import S3Server, ministack

TOPIC, ON_TWO_STORES = "orders", "payments"
PARTITIONS = 2
AFTER_SNAPSHOT = 5  # entries that an opening finds behind the newest snapshot
TASKS = 4  # of the bulk write: one object each
LARGE_RECORDS, LARGE_RECORD_BYTES = 200, 100_000


@dataclass(frozen=True)
class Counted:
    """An operation, and the requests that it sent."""

    operation: str
    requests: tuple[Request, ...]

    @property
    def counts(self) -> Counter[str]:
        return Counter(each.billed_as for each in self.requests)


@contextmanager
def proxied(server: S3Server) -> Iterator[FaultProxy]:
    """The server's environment for the AWS tools, with the proxy in front of it.

    Nothing is sent because of the time: stores are not probed at init, and no chain is idle for long.
    """
    with pytest.MonkeyPatch.context() as patch, FaultProxy(server.endpoint_url) as proxy:
        for name, value in {**server.variables, "AWS_ENDPOINT_URL": proxy.url}.items():
            patch.setenv(name, value)
        patch.setattr(bootstrap, "check_store", lambda store, probe_id: None)
        patch.setattr(same_chain, "IDLE_MS", 3_600_000)
        yield proxy
        forget_clients()


def measure(proxy: FaultProxy, bucket: str, appends: int) -> list[Counted]:
    """Every operation on a log of `appends` appends, whose newest snapshot lies `AFTER_SNAPSHOT` entries back."""
    url = f"s3://{bucket}/{uuid.uuid4().hex}"
    init_cluster(url, stores={"a": ".", "b": "b"})
    with connect(url) as writer:
        writer.create_topic(TOPIC, assignment=["a"] * PARTITIONS)
        writer.create_topic(ON_TWO_STORES, assignment=["ab"] * PARTITIONS)
        for number in range(appends - AFTER_SNAPSHOT):
            writer.append(TOPIC, rows(number))
        writer.connection.committer.snapshots.write()
        for number in range(AFTER_SNAPSHOT):
            writer.append(TOPIC, rows(number))
    counted: list[Counted] = []

    def count(operation: str, run: Callable[[], object]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            # As in a process that has not read anything yet.
            patch.setattr(object_reader, "_cache", object_reader._IndexCache(object_reader.CACHED_INDEXES))
            proxy.forget()
            run()
            counted.append(Counted(operation, proxy.requests))

    opened: list[Cluster] = []
    count("open a cluster", lambda: opened.append(connect(url)))
    (cluster,) = opened
    with cluster:
        last = appends - 1
        count("plan a read", lambda: cluster.connection.follower.catch_up())
        count(
            "read 10 records of one object, planning included",
            lambda: cluster.read(TOPIC, partition=0, start=10 * last, end=10 * last + 10),
        )
        count("look up an offset by time", lambda: cluster.offset_for_time(TOPIC, 0, 1))
        count("append: one object", lambda: cluster.append(TOPIC, rows(appends)))
        count("append: one object, on two stores", lambda: cluster.append(ON_TWO_STORES, rows(appends)))
        tasks = [rows(task) for task in range(TASKS)]
        count(f"bulk write: {TASKS} tasks, {TASKS} objects, one commit", lambda: bulk_write(cluster, tasks))
        count("bulk write: one object of 20 MB, sent in parts", lambda: bulk_write(cluster, [large_rows()]))
        count("write a snapshot of the chain", lambda: cluster.connection.committer.snapshots.write())
    with copied_chain(bucket) as cluster:
        count("append: one object, metadata.copies=1", lambda: cluster.append(TOPIC, rows(appends)))
    return counted


@contextmanager
def copied_chain(bucket: str) -> Iterator[Cluster]:
    """A cluster whose chain has a copy on a second store."""
    url = f"s3://{bucket}/{uuid.uuid4().hex}"
    init_cluster(url, stores={"a": ".", "b": "b"}, config={"metadata.copies": 1})
    with connect(url) as cluster:
        cluster.create_topic(TOPIC, assignment=["a"] * PARTITIONS)
        cluster.append(TOPIC, rows(0))
        yield cluster


def rows(number: int) -> pa.RecordBatch:
    """Ten records per partition."""
    values = [b"record %d of append %d" % (at, number) for at in range(10 * PARTITIONS)]
    partitions = pa.array([at % PARTITIONS for at in range(10 * PARTITIONS)], pa.int32())
    return pa.record_batch({"value": values, "partition": partitions})


def large_rows() -> pa.RecordBatch:
    """Records for one partition that no codec makes smaller."""
    dice = random.Random(1)
    values = [dice.randbytes(LARGE_RECORD_BYTES) for _ in range(LARGE_RECORDS)]
    return pa.record_batch({"value": values, "partition": pa.array([0] * LARGE_RECORDS, pa.int32())})


def bulk_write(cluster: Cluster, tasks: Sequence[pa.RecordBatch]) -> None:
    """As a Spark job writes: planned once, uploaded by tasks, committed by one command."""
    connection = cluster.connection
    state = connection.newest_state()
    now_ms = time.time_ns() // 1_000_000
    addresses = connection.addresses(state)
    plan = plan_write(state, addresses, new_command_id(), topic=TOPIC, compression=None, now_ms=now_ms)
    written = [upload_task_rows(plan, [each], sticky=task) for task, each in enumerate(tasks)]
    command = append_command(plan, written)
    assert command is not None
    connection.committer.submit(Submission(plan.command_id, plan.n0, command))


def main() -> int:
    os.environ.pop("SPARKLOG_CONFIG", None)
    with ministack() as server, proxied(server) as proxy:
        for each in measure(proxy, server.new_bucket(), 10):
            print(each.operation, dict(each.counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
