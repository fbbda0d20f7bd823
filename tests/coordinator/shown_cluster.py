"""A cluster with something to see on the pages of its coordinator: three stores, topics, a lagging replica, jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.commands import ReportJob
from sparklog.host.clock import now_ms

SESSION_MS = 60_000  # agents that are not there stay "new"


def init_shown(folder: Path) -> str:
    """Create the cluster, without data; returns its address."""
    url = str(folder / "prod")
    init_cluster(
        url,
        stores={"a": "../zone-a", "b": "../zone-b", "c": "../zone-c"},
        zones={"a": "eu-west-1a", "b": "eu-west-1b", "c": "eu-west-1c"},
        config={
            "broker.session.timeout.ms": SESSION_MS,
            "replica.lag.time.max.ms": 10 * SESSION_MS,  # the one that lags stays in the ISR
            "default.replication.factor": 3,
            "min.insync.replicas": 2,
            "page.writes": True,
        },
    )
    return url


def fill(address: str, *, topics: int = 3) -> None:
    """Write through the coordinator at this address."""
    with sparklog.connect(address) as cluster:
        for name, partitions in (("orders", 6), ("page-views", 12), ("payments", 3))[:topics]:
            cluster.create_topic(name, partitions=partitions, config={"retention.ms": 604_800_000})
            append(cluster, name, 1_000 * partitions)
        behind = pa.table({"partition": pa.array([0] * 250, pa.int32()), "value": [f"late {at}" for at in range(250)]})
        cluster.append("orders", behind, acks=1, replication="pull")
        for job, failed in (("roll", 0), ("compaction", 0), ("retention", 0), ("vacuum", 2)):
            cluster.submit(report(job, failed))


def append(cluster: Cluster, topic: str, records: int) -> None:
    rows = pa.table(
        {"key": [f"k{at}" for at in range(records)], "value": [f"value {at} of {topic}" for at in range(records)]}
    )
    cluster.append(topic, rows)


def report(job: str, failed: int) -> ReportJob:
    work = {"objects": 12, "records": 48_000, "bytes": 4_200_000, "requests": 60}
    text = json.dumps(
        {
            "job": job,
            "planned": work,
            "done": work,
            "deletion": {"planned": work, "done": work, "failed": failed},
            "failures": ["append/3f/: STORE_THROTTLED: 503 Slow Down"] * failed,
        }
    )
    ended_ms = now_ms() - 3_600_000
    return ReportJob(job, ended_ms - 42_500, ended_ms, failed, text)
