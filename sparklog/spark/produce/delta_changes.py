"""The change feed of a Delta table as records: rows that were added or changed, tombstones for keys that are gone.

Each version of the table is one commit of the log, in order, with the version as `txnVersion`. So the log itself shows
which versions it has: each version is written once, even if runs are killed or repeated. `change_runs.py` runs the
versions one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparklog.core.errors import InvalidInput, InvalidRecord, SparklogError
from sparklog.core.state import ClusterState
from sparklog.core.types import TopicId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGE: Final = "sparklog_change"  # a column added to those of the table
_ADDED: Final = ("insert", "update_postimage")
_FEED_COLUMNS: Final = ("_commit_version", "_commit_timestamp")


def changes_app_id(table_id: str, topic_id: TopicId) -> str:
    """Return the application id under which a table's changes are written to a topic.

    A table that was dropped and created again has another `table_id`, and so another application id.
    """
    return f"delta/{table_id}/{topic_id}"


def first_version(state: ClusterState, app_id: str, starting_version: int) -> int:
    """Return the first version of the table that the log lacks; `starting_version` if the log has no version yet."""
    written = state.applications.get(app_id)
    if written is None:
        return starting_version
    return written.version + 1 if written.has_written(written.version) else written.version


def open_changes(session: SparkSession, path: str | None, table: str | None, version: int) -> DataFrame:
    """The changes of one version: the columns of the table, and CHANGE with the kind of each change."""
    reader = session.read.format("delta").option("readChangeFeed", "true")
    reader = reader.option("startingVersion", version).option("endingVersion", version)
    feed = reader.load(path) if path is not None else reader.table(table or "")
    return feed.withColumnRenamed("_change_type", CHANGE).drop(*_FEED_COLUMNS)


def explained_of_feed(error: SparklogError) -> SparklogError:
    """Return `error`; if it says that Delta has no change feed for a version, return an InvalidInput with advice."""
    if "CHANGE_DATA" not in error.message:
        return error
    return InvalidInput(
        f"{error.message}; the table needs delta.enableChangeDataFeed=true from that version on: write the current "
        "table (without --changes), then its changes with --starting-version"
    )


def with_tombstones(rows: DataFrame) -> DataFrame:
    """Return the records of one version's changes. `rows` have the columns for the sink, and CHANGE.

    A key gets a tombstone if a row with this key was deleted or changed, and no new row (added, or the result of a
    change) has it. So a row whose key changed leaves a tombstone of its old key. If rows name their partition, a key
    in another partition counts as another key.
    """
    from pyspark.sql import functions as sql

    is_added = sql.col(CHANGE).isin(*_ADDED)
    added = rows.where(is_added).drop(CHANGE)
    no_key = sql.raise_error(
        sql.lit(
            f"sparklog.core.errors.{InvalidRecord.__name__}: {InvalidRecord.code}: wanted a key for each row that was "
            "deleted or changed, found null: a tombstone needs a key"
        )
    )
    key = sql.when(sql.col("key").isNull(), no_key.cast(rows.schema["key"].dataType)).otherwise(sql.col("key"))
    gone = rows.where(~is_added).withColumn("key", key)
    kept = [name for name in rows.columns if name == "partition"]
    keys = gone.groupBy("key", *kept).agg(sql.count(sql.lit(1)).alias("rows")).drop("rows")
    keys = keys.join(added.select("key", *kept), ["key", *kept], "left_anti")
    nothing = {field.name: sql.lit(None).cast(field.dataType).alias(field.name) for field in added.schema}
    columns = [sql.col(name) if name in keys.columns else nothing[name] for name in added.columns]
    return added.unionByName(keys.select(*columns))
