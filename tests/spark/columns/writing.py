"""Writes by Java and by Python, and what they have stored."""

from __future__ import annotations

from typing import Any

import msgspec
from pyspark.sql import DataFrame

from sparklog.client.cluster import Cluster
from sparklog.core.types import NamedObject
from sparklog.log.index import Index, decode_index, rebuild_index
from sparklog.options.typed import parse_write_options
from sparklog.spark.planner.write_requests import WRITE_REQUESTS
from sparklog.spark.write.batch_writer import begin_write
from sparklog.storage.keys import data_key, index_key

STORED = ("key", "value", "headers", "timestamp")


def save(frame: DataFrame, cluster: Cluster, topic: str) -> None:
    writer = frame.write.format("sparklog").mode("append").option("cluster", cluster.connection.url)
    writer.option("topic", topic).save()


def save_by_java(frame: DataFrame, cluster: Cluster, topic: str) -> None:
    """Write the rows of a frame, and make sure that it is Java that does."""
    assert begun(cluster, frame, topic) is not None
    save(frame, cluster, topic)


def preferred_hosts(frame: DataFrame) -> set[str]:
    """The hosts on which Spark would like to run the first task of a read."""
    rdd = frame._jdf.queryExecution().executedPlan().collectLeaves().head().inputRDD()
    return set(str(rdd.preferredLocations(rdd.partitions()[0]).mkString(",")).split(","))


def by_python(cluster: Cluster, frame: DataFrame, topic: str, **options: str) -> None:
    """Write the rows of a frame in this process, as one task."""
    given = {"cluster": cluster.connection.url, "topic": topic, **options}
    writer = begin_write(parse_write_options(given), frame.schema)
    writer.commit([writer.write(iter(frame.toArrow().to_batches()))])


def begun(cluster: Cluster, frame: DataFrame, topic: str = "t") -> object:
    """What the planner answers Java; None: it leaves the write to Python."""
    options = {"cluster": cluster.connection.url, "topic": topic}
    request = msgspec.json.encode({"options": options, "schema": frame.schema.json()})
    return msgspec.json.decode(WRITE_REQUESTS["plan_write"](request))


def stored(cluster: Cluster, topic: str, partition: int) -> list[dict[str, Any]]:
    return cluster.read(topic, partition=partition, include_headers=True).select(STORED).to_pylist()


def values(cluster: Cluster, partitions: int) -> list[bytes]:
    return [
        value
        for partition in range(partitions)
        for value in cluster.read("t", partition=partition)["value"].to_pylist()
    ]


def indexes(cluster: Cluster, topic: str, only: NamedObject | None = None) -> list[Index]:
    """The indexes of a topic's objects. Each is what can be made again from its object."""
    state = cluster.connection.newest_state()
    found = []
    for named in state.objects if only is None else [only]:
        if named.object.topic_id != state.topic_ids[topic]:
            continue
        key = data_key(named.object, topic)
        store = cluster.connection.stores(state).get(named.object.holders[0].store)
        index = decode_index(index_key(key), store.get(index_key(key)), named.object)
        assert index == rebuild_index(key, store.get(key), named.object)
        found.append(index)
    return found
