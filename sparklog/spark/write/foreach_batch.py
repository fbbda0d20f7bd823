"""Read, process, write in `foreachBatch`: each micro-batch is written once, in one commit with its input offsets.

    query = orders.writeStream.foreachBatch(exactly_once(shout, group="billing", topic="shouted")).start()

The query's id, with the group and the topic, is the write's `txnAppId`, and the micro-batch's number its `txnVersion`.
So a micro-batch that Spark repeats adds nothing, and a function for `foreachBatch` may call one `exactly_once` for each
of several topics. The input offsets come from the rows that the function gets: in each partition, the offset after the
last row. So they are the offsets of exactly those rows, even if the query has a filter before it.

The query's offset log has the input of a micro-batch, and a digest of it is part of the write. A micro-batch that is
planned again under an old number has another digest, so it is refused: it is not a repeat.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from sparklog.core.errors import InvalidInput
from sparklog.spark.read.offset_log import digest_of, logged_if_readable
from sparklog.spark.write.stream_writer import QUERY_ID

_PLACE: Final = ("topic", "partition", "offset")

# By application: the run and micro-batch of its last write in this process, the function, and the rows.
_CALLS: Final[dict[str, tuple[str, int, object, int]]] = {}

log = logging.getLogger("sparklog")


class _RunningQuery(NamedTuple):
    query_id: str
    run_id: str
    checkpoint: str


class ExactlyOnce:
    """The function that `sparklog.spark.exactly_once` returns; see the module."""

    def __init__(
        self,
        transform: Callable[[DataFrame], DataFrame],
        group: str,
        app_id: str | None,
        options: Mapping[str, str],
    ) -> None:
        self.transform = transform
        self.group = group
        self.app_id = app_id
        self.options = dict(options)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch and, in the same commit, its input offsets. Spark calls this in the driver.

        Raises InvalidInput (the source's columns are missing, the query is not known, or the micro-batch was already
        written from other rows), and the errors of a batch write.
        """
        missing = [name for name in _PLACE if name not in batch.columns]
        if missing:
            raise InvalidInput(
                f"wanted the columns topic, partition and offset, which show the consumed offsets, found no "
                f"{' and no '.join(missing)}: pass the unchanged rows of the source to foreachBatch"
            )
        app_id = self.app_id or " ".join([_query_of(batch), self.group, *self._topic()])
        running = _running_query(batch)
        logged = None
        if running is not None:
            self._check_only_one(batch, batch_id, app_id, running.run_id)
            logged = logged_if_readable(running.checkpoint, running.query_id, batch_id)
        batch.persist()  # it is used twice but read once
        try:
            writer = self.transform(batch).write.format("sparklog").mode("append").options(**self.options)
            consumed = _consumed(batch)
            if consumed:
                writer = writer.option("groupId", self.group).option("consumedOffsets", json.dumps(consumed))
            if logged is not None:
                writer = writer.option("txnDigest", digest_of(logged))
            writer.option("txnAppId", app_id).option("txnVersion", str(batch_id)).save()
        finally:
            batch.unpersist()

    def _check_only_one(self, batch: DataFrame, batch_id: int, app_id: str, run_id: str) -> None:
        """Raise InvalidInput if this run has written the micro-batch already, from other rows or by another object.

        With the same `app_id`, such a write would count as a repeat and add nothing, so its rows would be lost. A
        second call of the same object with the same rows is a harmless repeat.
        """
        call = (run_id, batch_id, self, batch.semanticHash())
        before = _CALLS.get(app_id)
        if before is not None and before[:2] == call[:2] and before[2:] != call[2:]:
            raise InvalidInput(
                f"micro-batch {batch_id} of {app_id} has been written in this run, from other rows or by another "
                "exactly_once: a second write is taken for a repeat and adds nothing: give each exactly_once its own "
                "app_id, and call it once with all rows"
            )
        _CALLS[app_id] = call

    def _topic(self) -> list[str]:
        return [text for name, text in self.options.items() if name.lower() == "topic"]


def _consumed(batch: DataFrame) -> dict[str, dict[str, int]]:
    """Return the offset after the last row of each partition, by topic and then by partition (as text)."""
    ends: dict[str, dict[str, int]] = {}
    for row in batch.groupBy("topic", "partition").agg(f.max("offset").alias("last")).collect():
        ends.setdefault(row["topic"], {})[str(row["partition"])] = row["last"] + 1
    return ends


def _query_of(batch: DataFrame) -> str:
    try:
        context = batch.sparkSession.sparkContext
    except (PySparkException, AttributeError) as error:
        raise InvalidInput("under Spark Connect the query is unknown: give exactly_once an app_id") from error
    query_id = context.getLocalProperty(QUERY_ID)
    if query_id is None:
        raise InvalidInput(
            "wanted to be called by foreachBatch of a streaming query, in its thread, found no query: give an app_id"
        )
    return query_id


def _running_query(batch: DataFrame) -> _RunningQuery | None:
    """Return the query that runs in this thread, or None if Spark does not report it.

    Python has no call for the run and the checkpoint of a query in `foreachBatch`, so this asks the JVM. That fails
    under Spark Connect, and in a thread that the user started.
    """
    session: Any = batch.sparkSession
    try:
        query_id: str = session.sparkContext.getLocalProperty(QUERY_ID)
        queries = session._jsparkSession.sharedState().activeStreamingQueries()
        query = queries.get(session._jvm.java.util.UUID.fromString(query_id))
        return _RunningQuery(query_id, query.runId().toString(), query.resolvedCheckpointRoot())
    except Exception as error:  # Python and the JVM may raise anything: the micro-batch is written without it
        log.debug("Spark does not report this query and its checkpoint: %s", error)
        return None
