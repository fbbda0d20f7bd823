"""Topics as the tables of a catalog of Spark's, in SQL and as streams."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from sparklog.client.cluster import Cluster
from tests.spark.conftest import TASK_ERROR

pytestmark = pytest.mark.spark
Sql = Callable[[str], list[Row]]


@pytest.fixture
def session(columnar: SparkSession, cluster: Cluster) -> SparkSession:
    """A session whose catalog `log` is the cluster. A session keeps the catalogs that it has loaded."""
    session = columnar.newSession()
    session.conf.set("spark.sql.catalog.log", "io.sparklog.LogCatalog")
    session.conf.set("spark.sql.catalog.log.cluster", cluster.connection.url)
    return session


@pytest.fixture
def sql(session: SparkSession) -> Sql:
    """Run a statement."""
    return lambda statement: session.sql(statement).collect()


def numbered(count: int) -> pa.Table:
    """Records with the values v0, v1, …"""
    return pa.table({"value": [f"v{at}" for at in range(count)]})


def values(cluster: Cluster, topic: str) -> list[bytes]:
    """The values of a topic, sorted."""
    partitions = range(len(cluster.describe(topic).partitions))
    return sorted(value for at in partitions for value in cluster.read(topic, partition=at)["value"].to_pylist())


def failure(sql: Sql, statement: str) -> str:
    """The error of a statement, which must fail."""
    with pytest.raises(AnalysisException) as raised:
        sql(statement)
    return str(raised.value)


@pytest.mark.sparks("catalog")
def test_a_topic_is_created_described_altered_and_dropped(sql: Sql, cluster: Cluster) -> None:
    assert sql("SHOW TABLES IN log") == []
    sql("CREATE TABLE log.orders TBLPROPERTIES ('partitions' = '3', 'retention.ms' = '-1')")
    sql("CREATE TABLE IF NOT EXISTS log.orders TBLPROPERTIES ('partitions' = '7')")
    assert [row.tableName for row in sql("SHOW TABLES IN log")] == cluster.topics() == ["orders"]
    described = {row.col_name: row.data_type for row in sql("DESCRIBE log.orders")}
    assert list(described) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert described["value"] == "binary"
    properties = {row.key: row.value for row in sql("SHOW TBLPROPERTIES log.orders")}
    assert properties == {"partitions": "3", "replication.factor": "1", "retention.ms": "-1"}
    sql("ALTER TABLE log.orders SET TBLPROPERTIES ('retention.ms' = '60000', 'cleanup.policy' = 'compact')")
    sql("ALTER TABLE log.orders UNSET TBLPROPERTIES ('retention.ms')")
    sql("ALTER TABLE log.orders SET TBLPROPERTIES ('partitions' = '5')")
    assert len(cluster.describe("orders").partitions) == 5
    assert cluster.describe("orders").config["cleanup.policy"].value == "compact"
    assert cluster.describe("orders").config["retention.ms"].origin == "default"
    sql("DROP TABLE log.orders")
    sql("DROP TABLE IF EXISTS log.orders")
    assert cluster.topics() == []


@pytest.mark.sparks("catalog", since="4.0")
def test_rows_are_inserted_by_the_names_of_their_columns_and_read_by_offset(sql: Sql, cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=2)
    rows = "cast(id AS string) AS key, concat('v', id) AS value, 1 AS partition FROM range(0, 9, 1, 1)"
    sql(f"INSERT INTO log.orders SELECT {rows}")
    sql("INSERT INTO log.orders (value, partition) VALUES ('last', 1)")
    assert cluster.read("orders", partition=1)["value"].to_pylist() == [*(b"v%d" % at for at in range(9)), b"last"]
    start = """WITH (startingOffsets = '{"orders": {"0": 0, "1": 8}}')"""
    read = sql(f"SELECT cast(value AS string) AS text FROM log.orders {start} ORDER BY offset")
    assert [row.text for row in read] == ["v8", "last"]
    joined = sql("SELECT count(*) AS rows FROM log.orders a JOIN log.orders b USING (partition, offset)")
    assert joined == [Row(rows=10)]


@pytest.mark.sparks("catalog")
def test_a_stream_reads_and_writes_tables(session: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    for topic in ("orders", "copies"):
        cluster.create_topic(topic)
    for expected in (30, 60):
        cluster.append("orders", numbered(30))
        source = session.readStream.option("startingOffsets", "earliest").table("log.orders").select("value")
        writer = source.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.toTable("log.copies").awaitTermination()
        assert len(values(cluster, "copies")) == expected
    assert values(cluster, "copies") == values(cluster, "orders")


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("CREATE TABLE log.new (price INT)", "INVALID_REQUEST: a topic has the columns key BINARY,.* found price INT"),
        ("CREATE TABLE log.new (key INT)", "INVALID_REQUEST: a topic has the columns key BINARY,.* found key INT"),
        ("CREATE TABLE log.new (value BINARY NOT NULL)", "found value BINARY NOT NULL"),
        ("CREATE TABLE log.new (value BINARY COMMENT 'x')", "found value BINARY COMMENT"),
        ("CREATE TABLE log.new (key BINARY) PARTITIONED BY (key)", "INVALID_REQUEST: .*; found PARTITIONED BY"),
        ("CREATE TABLE log.new TBLPROPERTIES ('retention.mss' = '1')", "did you mean retention.ms"),
        ("CREATE TABLE log.new TBLPROPERTIES ('partitions' = 'x')", "partitions: wanted an integer >= 1, found 'x'"),
        ("CREATE TABLE log.new AS SELECT id AS value FROM range(3)", "wanted string or binary, found int64"),
        ("CREATE TABLE log.new AS SELECT 'x' AS value, 1 AS price", "INVALID_REQUEST: .*; found price"),
        ("CREATE TABLE log.one.new", "SCHEMA_NOT_FOUND|namespace"),
        ("CREATE TABLE log.one.new AS SELECT 'x' AS value", "SCHEMA_NOT_FOUND|namespace"),
        ("CREATE TABLE log.orders AS SELECT 'x' AS value", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        (
            "CREATE OR REPLACE TABLE log.orders AS SELECT 'x' AS value",
            "INVALID_REQUEST: .* PURGE any; found REPLACE TABLE",
        ),
        ("CREATE OR REPLACE TABLE log.orders", "a log can't be replaced"),
        ("REPLACE TABLE log.orders AS SELECT 'x' AS value", "a log can't be replaced"),
        ("DROP TABLE log.orders", "POLICY_VIOLATION: orders: wanted a topic without records"),
        ("INSERT OVERWRITE log.orders SELECT 'x' AS value", "can only be appended to"),
        ("INSERT INTO log.orders VALUES ('x')", "INVALID_REQUEST: the names of columns say .*; found col1"),
        ("INSERT INTO log.orders SELECT 'a', 'b'", "INVALID_REQUEST: the names of columns say .*; found a, b"),
        ("INSERT INTO log.orders SELECT 'a' AS value, 1 AS price", "INSERT INTO log.orders .key, value.*; found price"),
        ("INSERT INTO log.orders (value, price) SELECT 'a', 1", "price"),
        ("INSERT INTO log.orders (key, value) SELECT 'a'", "key|columns"),
        ("INSERT INTO log.orders SELECT 'a' AS key", "column 'value' .string or binary. is missing, found key"),
        ("INSERT INTO log.orders SELECT 1 AS value", "wanted string or binary, found int"),
        ("CREATE NAMESPACE log.one", "INVALID_REQUEST: topics have no namespaces; found CREATE NAMESPACE one"),
        ("DROP NAMESPACE log.one", "SCHEMA_NOT_FOUND|INVALID_REQUEST: topics have no namespaces"),
        ("SHOW NAMESPACES IN log.one", "SCHEMA_NOT_FOUND"),
        ("ALTER TABLE log.orders RENAME TO log.others", "INVALID_REQUEST: a topic keeps its name"),
        ("ALTER TABLE log.orders ADD COLUMN price INT", "INVALID_REQUEST: only TBLPROPERTIES .* found AddColumn"),
        ("ALTER TABLE log.orders SET TBLPROPERTIES ('replication.factor' = '3')", "sparklog replica move"),
        ("ALTER TABLE log.orders SET TBLPROPERTIES ('partitions' = '3', 'retention.ms' = '1')", "of its own"),
        ("ALTER TABLE log.orders UNSET TBLPROPERTIES ('partitions')", "a topic always has partitions"),
        ("SELECT * FROM log.orders VERSION AS OF 1", "INVALID_REQUEST: WITH .*; found VERSION AS OF"),
        ("SELECT * FROM log.orders TIMESTAMP AS OF '2024-01-01'", "INVALID_REQUEST: WITH .*; found TIMESTAMP AS OF"),
        ("SELECT * FROM log.orders WITH (subscribe = 'others')", "is the topic orders; found subscribe = others"),
        ("INSERT INTO log.orders WITH (topic = 'x') SELECT 'x' AS value", "is the topic orders; found topic = x"),
        (
            "SELECT * FROM log.orders WITH (includeHeaders = 'true')",
            "SET spark.sql.catalog.log.* found .includeHeaders",
        ),
        ("SELECT count(*) FROM log.orders WITH (reader = 'x')", "reader: wanted one of auto, columns, rows, found 'x'"),
        ("SELECT * FROM log.absent", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM log.one.orders", "TABLE_OR_VIEW_NOT_FOUND"),
        (
            "SELECT * FROM log.orders WITH (startOffsets = 'x')",
            "not an option of a batch read; did you mean startingOffsets",
        ),
    ],
)
def test_what_a_log_cannot_be_is_refused_and_changes_nothing(
    sql: Sql, cluster: Cluster, statement: str, wanted: str
) -> None:
    cluster.create_topic("orders", config={"retention.ms": -1})
    cluster.append("orders", numbered(3))
    before = cluster.describe("orders")
    assert re.search(wanted, failure(sql, statement))
    assert cluster.topics() == ["orders"]
    assert cluster.describe("orders") == before


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO log.orders SELECT 'a', 'b'",
        "INSERT INTO log.orders SELECT 'a' AS value, 1 AS price",
        "INSERT INTO log.orders SELECT 'a' AS key",
        "INSERT INTO log.orders SELECT 1 AS value",
        "INSERT INTO log.orders SELECT 'a' AS value, 'b' AS value",
    ],
)
def test_an_insert_is_refused_in_one_sentence(sql: Sql, cluster: Cluster, statement: str) -> None:
    """Spark names the source in the first line, and has a line of its own for its SQLSTATE."""
    cluster.create_topic("orders")
    lines = [line for line in failure(sql, statement).splitlines() if line.strip()]
    assert len(lines) <= 3, lines
    assert "Traceback" not in lines[0]


def test_what_was_read_is_inserted_without_its_offsets(sql: Sql, cluster: Cluster) -> None:
    for topic in ("orders", "copies"):
        cluster.create_topic(topic)
    cluster.append("orders", numbered(3))
    sql("INSERT INTO log.copies SELECT * FROM log.orders")
    assert values(cluster, "copies") == [b"v0", b"v1", b"v2"]


def test_a_catalog_has_no_namespaces(sql: Sql) -> None:
    assert sql("SHOW NAMESPACES IN log") == []


def test_a_topic_with_records_is_deleted_only_by_purge(sql: Sql, cluster: Cluster) -> None:
    cluster.create_topic("orders")
    cluster.append("orders", numbered(3))
    failure(sql, "DROP TABLE log.orders")
    sql("DROP TABLE log.orders PURGE")
    assert cluster.topics() == []


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE TABLE log.orders",
        "CREATE OR REPLACE TABLE log.orders (price INT)",
        "CREATE OR REPLACE TABLE log.orders TBLPROPERTIES ('retention.mss' = '1')",
        "CREATE OR REPLACE TABLE log.orders AS SELECT 1 AS value",
        "REPLACE TABLE log.orders AS SELECT raise_error('x') AS value",
        "INSERT OVERWRITE log.orders SELECT 'x' AS value",
    ],
)
def test_a_topic_without_records_is_not_replaced_either(sql: Sql, cluster: Cluster, statement: str) -> None:
    """It has its config and its partitions. Spark would drop it before it looks at the new table."""
    before = cluster.create_topic("orders", partitions=5, config={"retention.ms": 777})
    state = cluster.connection.newest_state()
    failure(sql, statement)
    assert cluster.describe("orders") == before
    assert cluster.connection.newest_state().topic_ids == state.topic_ids


@pytest.mark.sparks("catalog")
def test_a_topic_is_created_for_the_rows_of_a_query_or_not_at_all(sql: Sql, cluster: Cluster) -> None:
    with pytest.raises(TASK_ERROR, match="some rows fail"):
        sql("CREATE TABLE log.new AS SELECT if(id < 5, 'x', raise_error('some rows fail')) AS value FROM range(9)")
    assert cluster.topics() == []
    sql("CREATE TABLE log.new TBLPROPERTIES ('partitions' = '2') AS SELECT concat('v', id) AS value FROM range(3)")
    assert values(cluster, "new") == [b"v0", b"v1", b"v2"]
    assert len(cluster.describe("new").partitions) == 2


def test_spark_can_create_what_it_shows(sql: Sql, cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=3, config={"retention.ms": 777})
    (shown,) = sql("SHOW CREATE TABLE log.orders")
    sql(shown.createtab_stmt.replace("log.orders", "log.copies"))
    assert sql("SHOW TBLPROPERTIES log.copies") == sql("SHOW TBLPROPERTIES log.orders")
