"""The change feed of a Delta table as records: rows that were added or changed, tombstones for keys that are gone.

Each version of the table is one commit of the log, in order, with the version as `txnVersion`. So the log itself shows
which versions it has: each version is written once, even if runs are killed or repeated. `change_runs.py` runs the
versions one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from sparklog.core.describe.readable import counted
from sparklog.core.errors import InvalidInput, InvalidRecord, SparklogError
from sparklog.core.state import ClusterState
from sparklog.core.types import TopicId
from sparklog.spark.produce.formats.bad_rows import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

KEYS_SHOWN: Final = 3
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


def open_version(
    session: SparkSession, path: str | None, table: str | None, version: int, columns: StructType
) -> DataFrame:
    """The rows of the table as of `version`, with the columns of its feed: null where the table lacked them then."""
    from pyspark.sql.types import StructField, StructType

    reader = session.read.format("delta").option("versionAsOf", version)
    rows = reader.load(path) if path is not None else reader.table(table or "")
    return rows.to(StructType([StructField(field.name, field.dataType) for field in columns]))


def explained_of_feed(error: SparklogError) -> SparklogError:
    """Return `error`; if it says that Delta has no change feed for a version, return an InvalidInput with advice."""
    if "CHANGE_DATA" not in error.message:
        return error
    return InvalidInput(
        f"{error.message}; the table needs delta.enableChangeDataFeed=true from that version on: write the current "
        "table (without --changes), then its changes with --starting-version"
    )


def with_tombstones(rows: DataFrame, current_rows: Callable[[], DataFrame], source: str) -> DataFrame:
    """Return the records of one version's changes. `rows` have the columns for the sink, and CHANGE.

    A row with a key may be deleted or changed while no new row (added, or the result of a change) has this key. Then
    `current_rows`, the records of all rows of the table at that version, are searched for the key. If no row has it, it
    gets a tombstone. If one row still has it, that row is written again, because the newest record of the key may be of
    the row that is gone. If several different rows have it, none of them is the newest value: raises InvalidRecord,
    which names the keys.

    So a row whose key changed leaves a tombstone of its old key. If rows name their partition, a key in another
    partition counts as another key. `current_rows` is called only if it is needed. Raises Spark's errors. A deleted row
    without a key is one of them. `source`: the table and the version, for messages.
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
    names = ["key", *(name for name in rows.columns if name == "partition")]
    gone = rows.where(~is_added).withColumn("key", key).select(*names).distinct()
    if gone.isEmpty():
        return added
    keys = _join(gone, added, "left_anti", names)
    if keys.isEmpty():
        return added
    records = current_rows()
    rows_by_key = _rows_by_key(_join(records.select(*names), keys, "left_semi", names), names)
    counts = rows_by_key.agg(sql.count("rows").alias("keys"), sql.max("rows").alias("most")).collect()[0]
    if counts["keys"]:
        remaining = _join(records, keys, "left_semi", names).distinct()
        if counts["most"] > 1:
            _check_one_row_each(remaining, names, source)
        keys, added = _join(keys, remaining, "left_anti", names), added.unionByName(remaining)
    nothing = {field.name: sql.lit(None).cast(field.dataType).alias(field.name) for field in added.schema}
    columns = [sql.col(name) if name in names else nothing[name] for name in added.columns]
    # Tombstones first: a record without a partition may have the key, and the partition, of a row that named one.
    return keys.select(*columns).unionByName(added)


def _check_one_row_each(remaining: DataFrame, names: Sequence[str], source: str) -> None:
    """Raise InvalidRecord if several of the rows `remaining`, which are all different, have the same key."""
    from pyspark.sql import functions as sql

    several = _rows_by_key(remaining, names).where(sql.col("rows") > 1)
    count = several.count()
    if not count:
        return
    listed = several.select(sql.col("key").cast("binary").alias("key"), "rows").orderBy("key").take(KEYS_SHOWN)
    examples = ", ".join(f"{shown(bytes(key))} ({rows} rows)" for key, rows in listed)
    more = ", …" if count > len(listed) else ""
    raise InvalidRecord(
        f"{source}: wanted at most one row for each key of a deleted or changed row, found "
        f"{counted(count, 'key')} with several: {examples}{more}. None of these rows is the newest value of its key. "
        "Nothing of this version was written: name columns in --key that tell rows apart; or leave one row of each "
        "key in the table, write the table to a new topic (without --changes), and its later changes to that topic "
        "with --starting-version"
    )


def _rows_by_key(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as sql

    return rows.groupBy(*names).agg(sql.count(sql.lit(1)).alias("rows"))


def _join(left: DataFrame, right: DataFrame, how: str, names: Sequence[str]) -> DataFrame:
    """Join by the columns `names`, in which null equals null: rows without a partition are routed by their keys."""
    from pyspark.sql import functions as sql

    on = [sql.col(f"left.{name}").eqNullSafe(sql.col(f"right.{name}")) for name in names]
    return left.alias("left").join(right.alias("right"), on, how)
