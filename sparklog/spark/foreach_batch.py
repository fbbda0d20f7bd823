"""Read, process, write in `foreachBatch`: each micro-batch is written once, in one commit with what it was made from.

    query = orders.writeStream.foreachBatch(exactly_once(shout, group="billing", topic="shouted")).start()

The query's id, with the group and the topic, is the write's `txnAppId`, and the micro-batch's number its `txnVersion`:
so a micro-batch that Spark repeats adds nothing, and one function may write to several topics. The offsets come from
the rows themselves: behind the last row of each partition. So what the group has consumed is exactly what the output
was made from, also if the query had a filter before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from sparklog.core.errors import InvalidInput
from sparklog.spark.stream_writer import QUERY_ID

_PLACE: Final = ("topic", "partition", "offset")


class ExactlyOnce:
    """See the module and `sparklog.spark.exactly_once`."""

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
        """Write a micro-batch. Spark calls this in the driver. Raises InvalidInput, and what a batch write raises."""
        missing = [name for name in _PLACE if name not in batch.columns]
        if missing:
            raise InvalidInput(
                f"wanted the columns topic, partition and offset, which say what was consumed, found no "
                f"{' and no '.join(missing)}: let foreachBatch have the rows of the source as they are"
            )
        app_id = self.app_id or " ".join([_query_of(batch), self.group, *self._topic()])
        batch.persist()  # it is used twice, and read once
        try:
            writer = self.transform(batch).write.format("sparklog").mode("append").options(**self.options)
            consumed = _consumed(batch)
            if consumed:
                writer = writer.option("groupId", self.group).option("consumedOffsets", json.dumps(consumed))
            writer.option("txnAppId", app_id).option("txnVersion", str(batch_id)).save()
        finally:
            batch.unpersist()

    def _topic(self) -> list[str]:
        return [text for name, text in self.options.items() if name.lower() == "topic"]


def _consumed(batch: DataFrame) -> dict[str, dict[str, int]]:
    """The offset behind the last row of each partition, by topic and partition."""
    ends: dict[str, dict[str, int]] = {}
    for row in batch.groupBy("topic", "partition").agg(f.max("offset").alias("last")).collect():
        ends.setdefault(row["topic"], {})[str(row["partition"])] = row["last"] + 1
    return ends


def _query_of(batch: DataFrame) -> str:
    try:
        query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except (PySparkException, AttributeError) as error:
        raise InvalidInput(
            "under Spark Connect nobody says which query this is: give exactly_once an app_id"
        ) from error
    if query_id is None:
        raise InvalidInput("wanted to be called by foreachBatch of a streaming query, found no query: give an app_id")
    return query_id
