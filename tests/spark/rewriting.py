"""A roll, and the deletion of what it replaced: for reads that were planned before."""

from __future__ import annotations

from sparklog.client.cluster import Cluster
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.storage.keys import APPENDS, data_key
from tests.kit.silent_console import SILENT


def roll_and_delete(cluster: Cluster, topic: str) -> None:
    """Every record of the topic is in sealed segments from now on, and the objects that held them are gone."""
    url = cluster.connection.url
    state = cluster.connection.newest_state()
    named = {data_key(each.object, topic) for each in state.objects}
    cluster.alter(topic, config={"rewrite.delete.delay.ms": 0})
    run_roll(url, topics=[topic], everything=True, console=SILENT)
    run_retention(url, topics=[topic], console=SILENT)
    left = {each.key for each in cluster.connection.follower.store.list_keys(APPENDS)}
    assert not left & named  # what speculative tasks uploaded beside is an orphan, and vacuum's
