"""Bulk write and read through Spark, by Python beside the bare Arrow source, by Java beside Parquet."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparklog
from bench.paired import Comparison, compare
from sparklog.client.bootstrap import init_cluster

RECORDS = {100: 3_000_000, 1_000: 600_000}
PARTITIONS = 4
_AGGREGATES = ("sum(length(value))", "max(offset)", "min(timestamp)")


def rows(spark: SparkSession, value_bytes: int, records: int) -> DataFrame:
    """8 B keys and half compressible values, held in memory so that making them is not measured."""
    noise = f.unhex(f.sha2(f.concat(f.col("id").cast("string"), f.lit("x")), 256))
    repeats = -(-value_bytes // 2 // 32)
    noisy = f.concat(*[f.unhex(f.sha2(f.concat_ws("-", "id", f.lit(at)), 256)) for at in range(repeats)])
    value = f.concat(
        f.substring(noisy, 1, value_bytes // 2), f.to_binary(f.lit("00" * (value_bytes // 2)), f.lit("hex"))
    )
    frame = spark.range(0, records, numPartitions=PARTITIONS).select(
        f.substring(noise, 1, 8).alias("key"), value.alias("value")
    )
    frame = frame.persist()
    frame.count()
    return frame


def bulk(spark: SparkSession, folder: Path) -> Iterator[Comparison]:
    """Each comparison writes to new places; the last write is what is read. Each codec's files are deleted after it."""
    number = itertools.count()
    for value_bytes, records in RECORDS.items():
        frame = rows(spark, value_bytes, records)
        for codec in ("zstd", "lz4", "none"):
            with tempfile.TemporaryDirectory(dir=folder) as place:
                cluster_url = str(Path(place) / "cluster")
                init_cluster(cluster_url)
                yield from _writes(frame, Path(place), cluster_url, value_bytes, codec, number)
        frame.unpersist()


def _writes(
    frame: DataFrame, folder: Path, cluster_url: str, value_bytes: int, codec: str, number: Iterator[int]
) -> Iterator[Comparison]:
    label = f"{value_bytes} B, {codec}"

    def sparklog_write(name: str, rows: DataFrame, partitions: int) -> str:
        topic = f"{name}-{next(number)}"
        with sparklog.connect(cluster_url) as cluster:
            cluster.create_topic(topic, partitions=partitions, config={"retention.ms": -1})
        written = rows.write.format("sparklog").option("cluster", cluster_url).option("topic", topic)
        written.option("compression", codec).mode("append").save()
        return topic

    def bare_write(rows: DataFrame) -> str:
        path = str(folder / f"bare-{next(number)}")
        rows.write.format("bare").option("path", path).option("codec", codec).mode("append").save()
        return path

    def parquet_write() -> str:
        path = str(folder / f"parquet-{next(number)}")
        frame.write.option("compression", "uncompressed" if codec == "none" else codec).parquet(path)
        return path

    yield compare(
        f"write {label}, into one partition",
        "bare Arrow writer",
        ">= 0.9",
        lambda: sparklog_write("one", frame, 1),
        lambda: bare_write(frame),
    )
    yield compare(
        f"write {label}, keys hashed into 6 partitions",
        "bare Arrow writer",
        ">= 0.75",
        lambda: sparklog_write("hashed", frame, 6),
        lambda: bare_write(frame),
    )
    yield compare(
        f"write {label}, keys hashed into 6 partitions",
        "parquet",
        "",
        lambda: sparklog_write("hashed", frame, 6),
        parquet_write,
        rounds=3,
    )
    topic = sparklog_write("read", frame, 1)
    spark = frame.sparkSession

    def read(reader: str) -> DataFrame:
        asked = spark.read.format("sparklog").option("cluster", cluster_url).option("subscribe", topic)
        return asked.option("reader", reader).load()

    bare_path = bare_write(read("rows"))
    parquet_path = str(folder / f"parquet-{next(number)}")
    read("rows").write.option("compression", "uncompressed" if codec == "none" else codec).parquet(parquet_path)
    yield compare(
        f"read {label}, by Python",
        "bare Arrow reader",
        ">= 0.85",
        lambda: _drain(read("rows")),
        lambda: _drain(spark.read.format("bare").option("path", bare_path).load()),
    )
    queries: dict[str, Callable[[DataFrame], object]] = {
        "seven columns": _drain,
        "key and value": lambda frame: _drain(frame.select("key", "value")),
        "three aggregates": lambda frame: frame.selectExpr(*_AGGREGATES).collect(),
    }
    for name, query in queries.items():
        yield compare(
            f"read {label}, by Java, {name}",
            "parquet",
            ">= 1.2",
            partial(_of, query, partial(read, "columns")),
            partial(_of, query, partial(spark.read.parquet, parquet_path)),
        )


def _of(query: Callable[[DataFrame], object], load: Callable[[], DataFrame]) -> None:
    query(load())


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
