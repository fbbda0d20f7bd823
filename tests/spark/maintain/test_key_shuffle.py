"""Compaction on Spark: keys meet in a shuffle, values never leave the tasks that rewrite them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from examples.flights import ABSENT, unpack
from sparklog.core.errors import SparklogError
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.spark.maintain import key_shuffle
from sparklog.spark.maintain.key_shuffle import SparkKeyShuffle, by_stretch
from sparklog.spark.maintain.spark_tasks import SparkTasks
from tests.maintenance.keyed_log import KeyedLog
from tests.maintenance.maintained_log import maintained
from tests.spark.conftest import OneSpark


@pytest.fixture
def log(tmp_path: Path) -> Iterator[KeyedLog]:
    for log in maintained((tmp_path / "cluster").as_uri()):
        yield KeyedLog(log)


def batch(*rows: tuple[int, int, int]) -> pa.RecordBatch:
    stretches, marks, keyless = zip(*rows, strict=True)
    columns = [pa.array(stretches, pa.int32()), pa.array(marks, pa.int64()), pa.array(keyless, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=["stretch", "mark", "keyless"])


def test_rows_of_a_stretch_are_gathered_over_batches() -> None:
    batches = [batch((0, -1, 0)), batch((2, -1, 0), (2, 6, 0)), batch((2, 9, 0), (2, 12, 3), (5, -1, 0), (5, 20, 0))]
    found = [
        (stretch, left.marks.tolist(), left.keyless, left.keyless_at) for stretch, left in by_stretch(iter(batches))
    ]
    assert found == [(0, [], 0, None), (2, [6, 9], 3, 6), (5, [20], 0, None)]
    assert list(by_stretch(iter([]))) == []


def test_what_spark_raises_is_an_error_of_sparklog(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(session: object, reads: object, rewrites: object) -> list[bytes]:
        raise RuntimeError("stage 7 was aborted")

    monkeypatch.setattr(key_shuffle, "_on_spark", failing)
    session: Any = object()
    with pytest.raises(SparklogError, match="Spark could not compact 2 ranges: stage 7 was aborted"):
        SparkKeyShuffle(lambda: session).run([b""], [b"", b""])


@pytest.mark.spark
@pytest.mark.sparks("compaction")
def test_spark_leaves_the_last_record_of_each_key(spark: Any, log: KeyedLog) -> None:  # M: C-01 C-07
    log.create(segment_bytes=3_000)
    for text in ("a1 b2 c3 d4 e5", "a b6 c7", " ".join(f"k{each % 7}" for each in range(90)), "a8 f"):
        log.segment(text)
    report = run_compaction(
        log.log.url,
        shuffle=SparkKeyShuffle(spark),
        tasks=SparkTasks(spark),
        everything=True,
        **log.log._common(),  # type: ignore[arg-type]
    )
    assert [row.outcome for row in report.partitions] == [WorkOutcome.DONE], report.to_json()
    log.check()
    assert len(log.read()) == len({key for _, key, _ in log.rows})


def compacted(log: KeyedLog, session: Any) -> None:
    report = run_compaction(
        log.log.url, shuffle=SparkKeyShuffle(session), tasks=SparkTasks(session), topics=["t"], everything=True
    )
    assert [row.outcome for row in report.partitions] == [WorkOutcome.DONE] * len(report.partitions), report.to_json()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("at_most", [20_000, pytest.param(None, marks=pytest.mark.campaign)])
def test_the_flights_that_are_left_are_those_that_spark_sql_finds(  # M: C-01
    spark: Any, log: KeyedLog, tmp_path: Path, at_most: int | None
) -> None:
    """The latest flight of each aircraft, of a sample or of all: what compaction leaves beside a query before it."""
    path = str(unpack(tmp_path, at_most).path)
    log.log.cluster.create_topic(
        "t", partitions=2, config={"cleanup.policy": "compact", "segment.bytes": 100_000, "rewrite.delete.delay.ms": 0}
    )
    flights = spark.read.csv(path, header=True).where(f"tailnum <> '{ABSENT}'")
    rows = flights.selectExpr(
        "cast(tailnum as binary) key",
        "cast(concat_ws(',', month, day, lpad(sched_dep_time, 4, '0'), carrier, flight) as binary) value",
        "make_timestamp(2013, cast(month as int), cast(day as int), 0, 0, 0) timestamp",
    )
    options = {"cluster": log.log.url, "topic": "t"}
    rows.write.format("sparklog").options(**options).mode("append").save()
    everything = spark.read.format("sparklog").options(cluster=log.log.url, subscribe="t").load().persist()
    everything.createOrReplaceTempView("flights_before")
    wanted = spark.sql(
        "select key, max_by(value, offset) value, max(offset) offset from flights_before group by key order by key"
    ).collect()
    assert log.log.roll().exit_code == 0
    compacted(log, spark)
    left = spark.read.format("sparklog").options(cluster=log.log.url, subscribe="t").load()
    assert left.select("key", "value", "offset").orderBy("key").collect() == wanted
    everything.unpersist()


KEYS = 20_000_000  # about 2 GB as a map of the JVM; the executors have half a gigabyte each
WRITES = 2  # of each key


@pytest.mark.spark
@pytest.mark.campaign
def test_more_keys_than_the_memory_of_a_worker(one_spark: OneSpark, log: KeyedLog) -> None:
    session = one_spark.session(
        "local-cluster[2,1,512]",
        spark__executor__memory="512m",
        spark__sql__codegen__wholeStage="true",
        spark__sql__codegen__factoryMode="FALLBACK",
    )
    log.log.cluster.create_topic("t", config={"cleanup.policy": "compact", "segment.bytes": 64 << 20})
    for _ in range(WRITES):
        rows = session.range(0, KEYS, 1, 8).selectExpr(
            "cast(concat('key-', lpad(id, 12, '0')) as binary) key", "cast(cast(id as string) as binary) value"
        )
        rows.write.format("sparklog").options(cluster=log.log.url, topic="t").mode("append").save()
    assert log.log.roll().exit_code == 0
    compacted(log, session)
    offsets = log.log.cluster.read("t", partition=0, columns=["offset"])["offset"].to_numpy()
    assert len(offsets) == KEYS
    assert offsets.min() == KEYS * (WRITES - 1)
