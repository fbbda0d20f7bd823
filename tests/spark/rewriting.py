"""A roll, and the deletion of what it replaced: for reads that were planned before."""

from __future__ import annotations

import io

from rich.console import Console

from sparklog.client.cluster import Cluster
from sparklog.spark.retention_job import run_retention
from sparklog.spark.roll_job import run_roll
from sparklog.storage.keys import APPENDS


def roll_and_delete(cluster: Cluster, topic: str) -> None:
    """Every record of the topic is in sealed segments from now on, and the objects that held them are gone."""
    url, quiet = cluster.connection.url, Console(file=io.StringIO())
    cluster.alter(topic, config={"rewrite.delete.delay.ms": 0})
    run_roll(url, topics=[topic], everything=True, console=quiet)
    run_retention(url, topics=[topic], console=quiet)
    assert not list(cluster.connection.follower.store.list_keys(APPENDS))
