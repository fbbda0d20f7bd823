"""The shuffle of a compaction on Spark: an adapter of `maintenance.rewrite.compaction_tasks.KeyShuffle`.

    read keys (Python tasks) -> last mark of each key (Spark's aggregate, which spills) -> sort by stretch and mark
        -> rewrite (Python tasks); all in one Spark job

The mark of a record is 2 * its offset, plus 1 for a tombstone. No process holds all keys. If Spark repeats a rewrite,
each attempt uploads objects of its own. The driver gets the result of one attempt; the objects of others are orphans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from sparklog.core.config.storage import NO_SETTINGS, StorageSettings
from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError
from sparklog.core.types import Offset
from sparklog.maintenance.job_report import JobReport
from sparklog.maintenance.rewrite import compaction_job
from sparklog.maintenance.rewrite.compaction_tasks import LeftRecords, read_keys, rewrite_stretch
from sparklog.spark.job_session import job_session
from sparklog.spark.maintain.spark_tasks import SparkTasks
from sparklog.spark.spark_errors import brief

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_REWRITES: Final = 400  # tasks; if there are more stretches, they share tasks


def run_compaction(cluster_url: str, *, settings: StorageSettings = NO_SETTINGS) -> JobReport:
    """Compact all partitions that are due, on a local Spark that starts only if there is work for it.

    `settings`: see `JobOptions`.
    """
    session = partial(job_session, "compaction")
    return compaction_job.run_compaction(
        cluster_url, shuffle=SparkKeyShuffle(session), tasks=SparkTasks(session), settings=settings
    )


class SparkKeyShuffle:
    """Runs shuffles on Spark. `session` is a session, or a function that returns one: the first shuffle calls it."""

    def __init__(self, session: SparkSession | Callable[[], SparkSession]) -> None:
        self._session = session

    def run(self, reads: Sequence[bytes], rewrites: Sequence[bytes]) -> list[bytes]:
        """Read the keys, then rewrite each stretch with the records left in it. See `KeyShuffle.run`.

        Returns the result of each rewrite, in the order of `rewrites`. Raises SparklogError if Spark fails.
        """
        try:
            if callable(self._session):
                self._session = self._session()
            return _on_spark(self._session, list(reads), list(rewrites))
        except Exception as error:  # Spark raises many kinds; for a job they all mean that the shuffle failed
            raise SparklogError(f"Spark could not compact {counted(len(rewrites), 'range')}: {brief(error)}") from error


def _on_spark(session: SparkSession, reads: list[bytes], rewrites: list[bytes]) -> list[bytes]:
    from pyspark.sql import functions as F  # noqa: N812 - the usual name among Spark users

    from sparklog.spark.spark_versions import repartition_by_id

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_keys(reads[number])

    def rewrite(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for stretch, left in by_stretch(batches):
            result = rewrite_stretch(rewrites[stretch], left)
            yield pa.RecordBatch.from_arrays([pa.array([stretch]), pa.array([result])], names=["id", "result"])

    keys = session.range(0, len(reads), 1, len(reads)).mapInArrow(read, "log int, key binary, stretch int, mark long")
    last = keys.groupBy("log", "key").agg(
        F.max("stretch").alias("stretch"), F.max("mark").alias("mark"), F.count("*").alias("records")
    )
    left = last.select("stretch", "mark", F.when(F.col("log") < 0, F.col("records")).otherwise(0).alias("keyless"))
    # A stretch without remaining records needs a row too: otherwise no task would rewrite it.
    stretches = session.range(len(rewrites)).select(
        F.col("id").cast("int").alias("stretch"), F.lit(-1).cast("long").alias("mark"), F.lit(0).cast("long")
    )
    tasks = min(len(rewrites), MOST_REWRITES)
    task = F.floor(F.col("stretch").cast("long") * tasks / len(rewrites)).cast("int")
    placed = repartition_by_id(left.unionAll(stretches), tasks, task).sortWithinPartitions("stretch", "mark")
    results = {
        row["id"]: bytes(row["result"]) for row in placed.mapInArrow(rewrite, "id long, result binary").collect()
    }
    return [results[number] for number in range(len(rewrites))]


def by_stretch(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, LeftRecords]]:
    """Yield each stretch with its LeftRecords, from rows (stretch, mark, keyless) sorted by stretch and mark.

    The mark of a record is 2 * its offset, plus 1 for a tombstone. A row is of one of three kinds. For a key, it has
    the mark of the key's last record, and `keyless` is 0. For all records of the stretch without a key, it has the mark
    of the last of them, and `keyless` is their number. Each stretch also has a row with mark -1, so that it appears
    even if no records are left.
    """
    current: int | None = None
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        stretches = batch.column(0).to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(stretches)) + 1).tolist(), len(stretches)]
        for low, high in pairwise(edges):
            if low == high:
                continue
            if current is not None and stretches[low] != current:
                yield current, _left(parts)
                parts = []
            current = int(stretches[low])
            parts.append(batch.slice(low, high - low))
    if current is not None:
        yield current, _left(parts)


def _left(parts: list[pa.RecordBatch]) -> LeftRecords:
    marks = np.concatenate([part.column(1).to_numpy() for part in parts])
    keyless = np.concatenate([part.column(2).to_numpy() for part in parts])
    without_key = marks[keyless > 0]
    at = Offset(int(without_key[0]) >> 1) if len(without_key) else None
    return LeftRecords(marks[(keyless == 0) & (marks >= 0)], int(keyless.sum()), at)
