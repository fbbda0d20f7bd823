"""Consume, transform, produce: processes that are killed around a commit make each bill exactly once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster

PARTITIONS, ORDERS = 3, 30


def runs(url: str, place: str, number: int) -> int:
    command = [sys.executable, "-m", "tests.client.producer.transforming_process", url, place, str(number)]
    return subprocess.run(command, check=False).returncode


@pytest.mark.parametrize(
    ("place", "committed"), [("before", 7), ("uploaded", 7), ("committed", 14)], ids=["before", "uploaded", "committed"]
)
def test_a_killed_process_and_the_next_one_make_each_bill_once(tmp_path: Path, place: str, committed: int) -> None:
    url = f"file://{tmp_path}/cluster"
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS)
        cluster.create_topic("bills", partitions=2)
        orders = [f"{number}" for number in range(ORDERS)]
        partitions = pa.array([number % PARTITIONS for number in range(ORDERS)], pa.int32())
        cluster.append("orders", pa.table({"value": orders, "partition": partitions}))
        assert runs(url, place, 1) == -signal.SIGKILL
        assert sum(row.offset for row in cluster.committed("billing").values()) == committed
        assert runs(url, "nowhere", 0) == 0
        bills = [bill for p in range(2) for bill in cluster.read("bills", partition=p)["value"].to_pylist()]
        assert Counter(bills) == Counter(order.encode() for order in orders)
        assert sum(row.offset for row in cluster.committed("billing").values()) == ORDERS
