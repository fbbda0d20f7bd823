"""Sockets that are opened and left alone: a coordinator closes the oldest, and goes on to commit."""

from __future__ import annotations

from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from tests.faults.idle_sockets import idle_sockets
from tests.faults.running_coordinators import SESSION_MS, running_coordinators

FEW, MANY = 20_000, 100_000
ROW = pa.table({"value": ["x"]})


# N-04: test_connections.py has the same with a bound of ten.
@pytest.mark.campaign
def test_a_hundred_thousand_idle_sockets_stop_nobody(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/cluster"
    init_cluster(url, config={"broker.session.timeout.ms": 10 * SESSION_MS})
    with running_coordinators(url) as running, connect(url) as cluster:
        cluster.create_topic("t")
        leader = running.start()
        leader.wait_for("leads")
        process = psutil.Process(leader.process.pid)
        port = int(leader.address.rpartition(":")[2])
        memory = [process.memory_info().rss]
        appends = 0
        for count in (FEW, MANY):
            with idle_sockets(port, count) as opened:
                for _ in range(20):
                    cluster.append("t", ROW)
                    appends += 1
                memory.append(process.memory_info().rss)
                held = process.num_fds()
            print(f"{sum(number for number, _ in opened)} sockets opened ({opened}), {held} held by the coordinator")
            assert sum(number for number, _ in opened) == count
        print("memory:", ", ".join(f"{each / 2**20:.0f} MiB" for each in memory))
        assert memory[2] < memory[1] + 100 * 2**20
        assert cluster.read("t", partition=0).num_rows == appends
