"""The second act of make demo-full: the topic is compacted to each aircraft's latest flight, and copied to Delta Lake.

    the latest record of each key by Spark SQL -> compaction -> the topic has only these, in less space
    -> materialize -> Delta Lake reads the same from the table

Delta Lake is a separate Spark package. Its JARs are fetched while the first act runs; if this machine can't get them,
there is no table.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from steps import PROJECT

from sparklog.client.cluster import Cluster
from sparklog.core.describe.readable import amount
from sparklog.maintenance import run_compaction
from sparklog.spark import SparkKeyShuffle, SparkTasks
from sparklog.spark.materialize.columns import Layout
from sparklog.spark.materialize.delta_table import delta_settings
from sparklog.spark.materialize.materialize_job import Table, run_materialize
from sparklog.spark.materialize.position import Mode
from sparklog.storage.keys import APPENDS, TOPICS

if TYPE_CHECKING:
    from demo import Demo

Latest = dict[bytes, tuple[int, bytes]]  # key -> offset and value of its last record


class DeltaJars:
    """The JARs of Delta Lake, which the process `fetching` downloads; None if no Delta table is wanted.

    `problem`: the reason why there is no Delta table, or "". It is final once `settings` has returned.
    """

    def __init__(self, fetching: subprocess.Popen[str] | None) -> None:
        self._fetching = fetching
        self.problem = "" if fetching else "--without-delta"

    def settings(self) -> dict[str, str]:
        """Wait for the JARs. Return the Spark settings for Delta Lake; {} if there is a `problem`."""
        if self._fetching is None:
            return {}
        jars, errors = self._fetching.communicate()
        if self._fetching.returncode:
            self.problem = (errors.strip().splitlines() or ["no reason given"])[-1]
            return {}
        return {"spark.jars": jars.strip(), **delta_settings(), "spark.databricks.delta.snapshotPartitions": "1"}


@contextmanager
def delta_jars(*, wanted: bool) -> Iterator[DeltaJars]:
    """Fetch the JARs in the background, if they are wanted. The fetch is killed if it still runs after the block."""
    if not wanted:
        yield DeltaJars(None)
        return
    fetch = [sys.executable, "-m", "bench.peer_jars"]
    pipe = subprocess.PIPE
    with subprocess.Popen(fetch, cwd=PROJECT, stdout=pipe, stderr=pipe, text=True) as fetching:
        try:
            yield DeltaJars(fetching)
        finally:
            fetching.kill()


def second_act(demo: Demo, spark: Any, cluster: Cluster, topic: str, delta: DeltaJars) -> None:
    """Compact the topic, copy it to a Delta table if `delta` has the JARs, and compare both with Spark SQL's result.

    Raises CheckFailed if they differ.
    """
    latest = _latest(demo.frame(spark))
    before, records = _stored_bytes(cluster), cluster.describe(topic).records
    cluster.alter(topic, config={"cleanup.policy": "compact"})
    demo.say("compaction: cleanup.policy is now compact, and of each aircraft only the latest flight is to stay")
    tasks, silent = SparkTasks(spark), io.StringIO()
    report = run_compaction(
        demo.url, shuffle=SparkKeyShuffle(spark), tasks=tasks, topics=[topic], everything=True, console=silent
    )
    demo.check("partitions that were not compacted", report.failed, 0)
    after = _stored_bytes(cluster)
    demo.check("the records left", _latest(demo.frame(spark)), latest)
    demo.check("how many records are left", demo.frame(spark).count(), len(latest))
    demo.say(
        f"space before: {amount(before)} for {records:,} records; after: {amount(after)} for {len(latest):,}, the "
        "same that Spark SQL found before, with their offsets"
    )
    if delta.problem:
        demo.say(f"no Delta table: {delta.problem}")
        return
    table = str(demo.folder / "latest-flights")
    report = run_materialize(demo.url, topic, Table(table, Layout(Mode.LATEST)), lambda: spark, console=silent)
    demo.check("partitions that did not get into the table", report.failed, 0)
    demo.check("rows of the Delta table", _latest(spark.read.format("delta").load(table)), latest)
    demo.say(f"materialize: as a Delta table, {table}; read by Delta Lake it has the same {len(latest):,} rows")


def _latest(records: Any) -> Latest:
    """Compute with Spark SQL the offset and value of each key's last record. `records`: a DataFrame."""
    records.createOrReplaceTempView("records")
    rows = records.sparkSession.sql(
        "select key, max(offset), max_by(value, offset) from records group by key"
    ).collect()
    return {bytes(key): (offset, bytes(value)) for key, offset, value in rows}


def _stored_bytes(cluster: Cluster) -> int:
    store = cluster.connection.follower.store
    return sum(stored.size_bytes for prefix in (APPENDS, TOPICS) for stored in store.list_keys(prefix))
