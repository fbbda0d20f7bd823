"""A Delta table, through SQL and Spark's writer: the only file that talks to Delta Lake.

Delta Lake is a separate Spark package (`io.delta:delta-spark`), which sparklog does not include.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from sparklog.core.errors import Conflict, InvalidInput
from sparklog.host.dice import new_id
from sparklog.spark import check_spark
from sparklog.spark.materialize.columns import TOMBSTONE, Layout, is_newer
from sparklog.spark.materialize.position import TablePosition, of_metadata
from sparklog.spark.spark_errors import condition_of, explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG: Final = "spark.sql.catalog.spark_catalog"
_DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_EXTENSIONS: Final = "spark.sql.extensions"
_APP_ID: Final = "spark.databricks.delta.write.txnAppId"
_VERSION: Final = "spark.databricks.delta.write.txnVersion"
_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"
_NO_TABLE: Final = ("DELTA_TABLE_ONLY_OPERATION", "DELTA_MISSING_DELTA_TABLE", "TABLE_OR_VIEW_NOT_FOUND")
_OVERTAKEN: Final = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
_RECENT: Final = 20  # commits to look at first: the history costs one file per commit


def delta_settings() -> Mapping[str, str]:
    """Return the session settings for Delta Lake. Extensions and a catalog that spark-submit has set are kept.

    Raises InvalidInput without a Spark that sparklog supports.
    """
    check_spark()
    from pyspark import SparkConf

    conf = SparkConf()
    extensions = [name for name in conf.get(_EXTENSIONS, "").split(",") if name]
    if EXTENSION not in extensions:
        extensions.append(EXTENSION)
    return {_EXTENSIONS: ",".join(extensions), _CATALOG: conf.get(_CATALOG, _DELTA_CATALOG)}


def check_delta(session: SparkSession) -> None:
    """Raise InvalidInput if the session has no Delta Lake."""
    try:
        session.sql("DESCRIBE HISTORY delta.`/` LIMIT 1")  # without LIMIT, Spark itself accepts the statement
    except Exception as error:
        if condition_of(error) in _NO_TABLE:
            return
        from sparklog.spark.spark_versions import delta_package

        raise InvalidInput(
            f"wanted a Spark with Delta Lake, found none: spark-submit --packages {delta_package()} (or --jars with "
            f"the JARs of io.delta), --conf {_EXTENSIONS}={EXTENSION} and --conf {_CATALOG}={_DELTA_CATALOG}"
        ) from error


class JobCommit(NamedTuple):
    """The last commit of the materialize job in a table. `is_last`: no other writer has committed since."""

    position: TablePosition
    committed_at: datetime
    is_last: bool


class DeltaTable:
    """A table by name (`db.orders`) or by path (anything with a slash)."""

    def __init__(self, session: SparkSession, name: str) -> None:
        self.name = name
        self._session = session
        self._is_path = "/" in name
        self._sql_name = f"delta.`{name.replace('`', '``')}`" if self._is_path else name

    def exists(self) -> bool:
        """True if the Delta table exists. Raises SparklogError if that can't be determined."""
        try:
            self._session.sql(f"DESCRIBE HISTORY {self._sql_name} LIMIT 1").collect()
        except Exception as error:
            if condition_of(error) in _NO_TABLE:
                return False
            raise explained(error, self.name) from error
        return True

    def last_job_commit(self) -> JobCommit | None:
        """The job's last commit; None if the job never wrote to the table, or Delta's history no longer has the commit.

        Raises Conflict if another writer has restored or replaced the table since that commit.
        """
        return self._job_commit(f" LIMIT {_RECENT}") or self._job_commit("")

    def _job_commit(self, limit: str) -> JobCommit | None:
        try:
            history = self._session.sql(f"DESCRIBE HISTORY {self._sql_name}{limit}")
            commits = history.select("version", "userMetadata", "timestamp", "operation").collect()
        except Exception as error:
            raise explained(error, self.name) from error
        for place, commit in enumerate(sorted(commits, key=lambda commit: commit.version, reverse=True)):
            position = of_metadata(commit.userMetadata)
            if position is not None:
                return JobCommit(position, commit.timestamp, place == 0)
            if commit.operation == "RESTORE" or "REPLACE TABLE" in commit.operation:
                raise Conflict(
                    f"{self.name}: wanted a table that only grows, found {commit.operation} by another writer at "
                    f"{commit.timestamp}: records may be missing that the job will not add again; name another table"
                )
        return None

    def last_version(self) -> int:
        """Delta's version of the table. Raises NotFound or InvalidInput if there is no such table."""
        return int(str(self._one(f"DESCRIBE HISTORY {self._sql_name} LIMIT 1", "version")))

    def table_id(self) -> str:
        """The id that Delta gave the table when it was created."""
        return str(self._one(f"DESCRIBE DETAIL {self._sql_name}", "id"))

    def _one(self, statement: str, column: str) -> object:
        try:
            value: object = self._session.sql(statement).select(column).collect()[0][0]
        except Exception as error:
            raise explained(error, self.name) from error
        return value

    def schema(self) -> StructType:
        """The columns of the table."""
        return self._frame().schema

    def create(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        """Create the table, empty, with the columns of `rows`. Does nothing if another process has just created it."""
        try:
            self._save(rows.limit(0), "errorifexists", {}, partition_by)
        except Exception as error:
            if not self.exists():
                raise explained(error, self.name) from error

    def add_columns(self, columns: StructType) -> None:
        """Add columns at the end; they are null in existing rows."""
        listed = ", ".join(f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in columns)
        try:
            self._session.sql(f"ALTER TABLE {self._sql_name} ADD COLUMNS ({listed})")
        except Exception as error:
            raise explained(error, self.name) from error

    def append(self, rows: DataFrame, position: TablePosition) -> None:
        """Add rows in one commit that also stores `position`. If the table has that step already, nothing is added."""
        options = {
            "txnAppId": position.app_id,
            "txnVersion": str(position.step),
            "userMetadata": position.to_metadata(),
        }
        self._save(rows, "append", options)

    def merge(self, rows: DataFrame, layout: Layout, position: TablePosition) -> None:
        """Replace, add and delete rows by key, in one commit that also stores `position`.

        `rows` has one row per key; those with TOMBSTONE true delete. A row older than the table's row of its key has no
        effect.
        """
        view = f"materialized_{new_id()}"
        columns = [name for name in rows.columns if name != TOMBSTONE]
        names = ", ".join(map(_quoted, columns))
        values = ", ".join(f"s.{_quoted(name)}" for name in columns)
        update = ", ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in columns)
        key, newer = _quoted(layout.own("key")), is_newer(layout, "s", "t")
        rows.createOrReplaceTempView(view)
        identity = {_APP_ID: position.app_id, _VERSION: str(position.step), _METADATA: position.to_metadata()}
        try:
            for setting, value in identity.items():  # MERGE has no options
                self._session.conf.set(setting, value)
            self._session.sql(
                f"MERGE INTO {self._sql_name} t USING {view} s ON t.{key} = s.{key} "
                f"WHEN MATCHED AND s.{TOMBSTONE} AND {newer} THEN DELETE "
                f"WHEN MATCHED AND {newer} THEN UPDATE SET {update} "
                f"WHEN NOT MATCHED AND NOT s.{TOMBSTONE} THEN INSERT ({names}) VALUES ({values})"
            ).collect()
        finally:
            for setting in identity:
                self._session.conf.unset(setting)
            self._session.catalog.dropTempView(view)

    def _save(self, rows: DataFrame, mode: str, options: Mapping[str, str], partition_by: Sequence[str] = ()) -> None:
        writer = rows.write.format("delta").mode(mode).options(**options)
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        if self._is_path:
            writer.save(self.name)
        else:
            writer.saveAsTable(self.name)

    def _frame(self) -> DataFrame:
        if self._is_path:
            return self._session.read.format("delta").load(self.name)
        return self._session.table(self.name)


def is_overtaken(error: Exception) -> bool:
    """True if Delta refused a commit because another writer changed the table first."""
    return any(code in str(error) for code in _OVERTAKEN)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
