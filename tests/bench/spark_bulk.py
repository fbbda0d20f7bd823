"""Bulk write and read through Spark, beside the bare Arrow source and beside Parquet."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.bench.paired import Comparison, compare

RECORDS = {100: 3_000_000, 1_000: 600_000}
PARTITIONS = 4


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
    read = spark.read.format("sparklog").option("cluster", cluster_url).option("subscribe", topic)
    bare_path = bare_write(read.load())
    parquet_path = parquet_write()
    yield compare(
        f"read {label}",
        "bare Arrow reader",
        ">= 0.85",
        lambda: _drain(read.load()),
        lambda: _drain(spark.read.format("bare").option("path", bare_path).load()),
    )
    yield compare(
        f"read {label}",
        "parquet",
        "",
        lambda: _drain(read.load()),
        lambda: _drain(spark.read.parquet(parquet_path)),
        rounds=3,
    )


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
