"""A cluster with three stores on one disk, from outside (the fixture `replicated`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sparklog
from sparklog.core.commands import ReplicaReport, ReportReplicas
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId
from tests.cli.conftest import Cli
from tests.core.state_contents import contents


def state_of(cli: Cli) -> ClusterState:
    with sparklog.connect(cli.url) as cluster:
        return cluster.connection.follower.state


def said_by(cli: Cli) -> dict[str, Any]:
    """Everything that the state says."""
    return contents(state_of(cli))


def report_all(cli: Cli, *stores: str) -> None:
    """Say, as agents do, that these stores hold the whole log of every partition that they have a replica of."""
    with sparklog.connect(cli.url) as cluster:
        for store in stores:
            state = cluster.connection.follower.state
            rows = [
                ReplicaReport(
                    each.topic_id,
                    each.partition,
                    each.replication.leader_epoch,
                    each.replication.version,
                    each.next_offset,
                )
                for each in state.partitions.values()
                if store in each.replication.replicas
            ]
            registration = state.stores[StoreId(store)].registration
            cluster.submit(ReportReplicas(StoreId(store), registration, tuple(rows)))


def replicas(cli: Cli) -> list[str]:
    """A line for each partition: t-0 b:bc a4 b4 c4."""
    found = cli.json("replica", "list")
    return [
        f"{row['topic']}-{row['partition']} {row['leader'] or '-'}:{''.join(row['isr'])}"
        + "".join(f" {each['store']}{each['log_end']}" for each in row["replicas"])
        for row in found
    ]


def disk(cli: Cli, store: str) -> Path:
    return Path(cli.url).parent / store
