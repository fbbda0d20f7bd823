"""The log's own state as DataFrames."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.options.registry import METADATA_TABLES
from sparklog.options.typed import parse_read_options
from sparklog.spark.read import metadata_reader
from sparklog.spark.read.metadata_reader import MetadataReader
from sparklog.spark.read.metadata_tables import metadata_schema
from tests.chain.fenced_entry import write_fenced_entry
from tests.spark.conftest import Read

pytestmark = pytest.mark.spark


def filled(cluster: Cluster) -> None:
    cluster.create_topic("b", partitions=1)
    cluster.create_topic("a", partitions=2, config={"retention.ms": 5_000})
    rows = pa.table({"value": ["x", "y", "z"], "partition": pa.array([0, 1, 1], pa.int32())})
    cluster.append("a", rows, application=("job", 4), write_id="first")
    cluster.append("a", rows)


@pytest.mark.parametrize("table", METADATA_TABLES)
def test_every_table_has_the_schema_it_states(cluster: Cluster, read: Read, table: str) -> None:
    filled(cluster)
    cluster.commit_offsets("billing", {("a", 1): 1})
    df = read(metadata=table)
    assert df.schema == metadata_schema(table)
    assert df.count() > 0
    assert df.select(df.columns[0]).count() == df.count()


@pytest.mark.sparks("metadata", since="4.0")
def test_topics_and_partitions_count_what_can_be_read(cluster: Cluster, read: Read) -> None:
    filled(cluster)
    topics = read(metadata="topics").select("topic", "partitions", "records", "segments", "config").collect()
    assert [tuple(row)[:4] for row in topics] == [("a", 2, 6, 4), ("b", 1, 0, 0)]
    assert topics[0].config["retention.ms"] == "5000"
    partitions = (
        read(metadata="partitions").select("topic", "partition", "log_start", "high_watermark", "isr").collect()
    )
    assert [tuple(row) for row in partitions] == [
        ("a", 0, 0, 2, ["local"]),
        ("a", 1, 0, 4, ["local"]),
        ("b", 0, 0, 0, ["local"]),
    ]


# M: L-01 S-01
def test_replicas_tell_who_leads_and_who_is_behind(cluster: Cluster, read: Read) -> None:
    for store, zone in (("b", "z2"), ("c", None)):
        cluster.add_store(store, f"store-{store}", zone=zone)
    cluster.create_topic("t", assignment=[["b", "c"]])
    rows = pa.table({"value": ["x"]})
    cluster.append("t", rows)
    cluster.fence_store("c")
    cluster.append("t", rows)
    cluster.move_replicas("t", ["b", "local"])
    found = [row.asDict() for row in read(metadata="replicas").collect()]
    sizes = {row.pop("store"): (row.pop("size_bytes"), row.pop("lag_bytes")) for row in found}
    assert list(sizes) == ["b", "local", "c"]
    assert sizes["b"] == (2 * sizes["c"][0], 0)
    assert sizes["local"] == (0, sizes["b"][0])
    names = ("zone", "is_leader", "in_isr", "in_elr", "log_end", "lag_records")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("z2", True, True, False, 2, 0),
        (None, False, False, False, 0, 2),
        (None, False, False, False, 1, 1),
    ]
    names = ("topic", "partition", "registration", "reachable", "adding", "removing")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("t", 0, 1, True, False, False),
        ("t", 0, 0, True, True, False),
        ("t", 0, 3, False, False, True),
    ]
    (row,) = read(metadata="partitions").select("leader", "leader_epoch", "isr", "elr", "high_watermark").collect()
    assert tuple(row) == ("b", 0, ["b"], [], 2)


@pytest.mark.sparks("metadata", since="4.0")
def test_segments_name_the_objects_that_hold_each_range(cluster: Cluster, read: Read) -> None:
    filled(cluster)
    rows = read(metadata="segments").where("partition = 1").collect()
    assert [(row.start, row.end, row.records, row.kind) for row in rows] == [(0, 2, 2, "append"), (2, 4, 2, "append")]
    state = cluster.connection.newest_state()
    store = cluster.connection.stores(state).get(next(iter(state.stores)))
    assert [store.size(row.object) for row in rows] == [row.object_size_bytes for row in rows]


def test_groups_tell_how_far_they_have_come(cluster: Cluster, read: Read) -> None:  # M: I-07
    filled(cluster)
    cluster.commit_offsets("audit", {("a", 1): 1}, metadata="run 7")
    with cluster.join_group("billing", ["a", "b"]) as member:
        member.commit({("a", 0): 2})
        rows = read(metadata="groups").drop("committed_at", "unread_since").collect()
    assert [tuple(row)[:-1] for row in rows] == [
        ("audit", "Empty", 0, "a", 1, 1, 0, "run 7", 0, 4, 3),
        ("billing", "Stable", 1, "a", 0, 2, 0, "", 0, 2, 0),
        ("billing", "Stable", 1, "a", 1, None, None, None, 0, 4, None),
        ("billing", "Stable", 1, "b", 0, None, None, None, 0, 0, None),
    ]
    assert [row.member for row in rows] == [None, *[member.member_id] * 3]


def test_writes_tell_who_wrote_what(cluster: Cluster, read: Read) -> None:
    filled(cluster)
    rows = read(metadata="writes").orderBy("entry", "partition").collect()
    assert [(row.write_id, row.app_id, row.app_version, row.partition, row.start, row.end) for row in rows] == [
        ("first", "job", 4, 0, 0, 1),
        ("first", "job", 4, 1, 0, 2),
        (None, None, None, 0, 1, 2),
        (None, None, None, 1, 2, 4),
    ]


@pytest.mark.sparks("metadata", since="4.0")
def test_chain_shows_every_entry_in_order(cluster: Cluster, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(cluster)
    rows = read(metadata="chain").collect()
    assert [row.entry for row in rows] == [0, 1, 2, 3, 4]
    assert rows[3].records == ["appended"]
    monkeypatch.setattr(metadata_reader, "ENTRIES_PER_TASK", 2)
    options = parse_read_options({"cluster": cluster.connection.url, "metadata": "chain"})
    reader = MetadataReader(options, metadata_schema("chain"))
    tasks = reader.partitions()
    assert [[row["entry"] for batch in reader.read(task) for row in batch.to_pylist()] for task in tasks] == [
        [0, 1],
        [2, 3],
        [4],
    ]


def test_chain_marks_what_a_fenced_coordinator_wrote(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fenced_entry(cluster.connection.follower)
    monkeypatch.setattr(metadata_reader, "ENTRIES_PER_TASK", 3)  # the last entry is in a task of its own
    options = parse_read_options({"cluster": cluster.connection.url, "metadata": "chain"})
    reader = MetadataReader(options, metadata_schema("chain"))
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    assert [(row["author"], row["ignored"]) for row in rows[1:]] == [
        ("c1 (epoch 1)", False),
        ("c2 (epoch 2)", False),
        ("c1 (epoch 1)", True),
    ]


@pytest.mark.sparks("metadata", since="4.0")
def test_metadata_of_an_empty_cluster_is_empty(cluster: Cluster, read: Read) -> None:
    assert read(metadata="topics").collect() == []
    assert read(metadata="writes").count() == 0


@pytest.mark.sparks("latest", since="4.1")
def test_metadata_is_bound_and_pruned_as_records_are(spark: SparkSession, cluster: Cluster, read: Read) -> None:
    filled(cluster)
    df = read(metadata="topics")
    assert df.count() == 2
    cluster.create_topic("c", partitions=1)
    assert df.count() == 2
    pruned = spark.read.format("sparklog").schema("topic string").option("cluster", cluster.connection.url)
    assert pruned.option("metadata", "topics").load().collect() == [("a",), ("b",), ("c",)]


def test_metadata_goes_with_no_option_that_chooses_records(cluster: Cluster, read: Read) -> None:
    with pytest.raises(PySparkException, match="INVALID_OPTION: metadata: 'topics' shows the whole cluster"):
        read("t", metadata="topics").collect()
    with pytest.raises(PySparkException, match="INVALID_OPTION: metadata: wanted"):
        read(metadata="topic").collect()
