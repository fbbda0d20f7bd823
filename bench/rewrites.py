"""Roll and compaction, beside bare Spark jobs that read and write the same rows as Parquet, in the same session.

python -m bench.rewrites        prints a line per figure

Each run gets a new copy of the log, of hard links. sparklog syncs what it writes; Spark leaves that to the system.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparklog
from bench.paired import Comparison, Spread, compared, interleaved, seconds
from bench.session import session
from bench.spark_bulk import rows
from sparklog.client.bootstrap import init_cluster
from sparklog.maintenance.job_report import JobReport
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.spark.maintain.key_shuffle import SparkKeyShuffle
from sparklog.spark.maintain.spark_tasks import SparkTasks

RECORDS = {100: 2_000_000, 1_000: 400_000}  # by the bytes of a value
KEY_BYTES = 8
WRITES_OF_A_KEY = 4
PARTITIONS = 6
FEW_TASKS, MANY_TASKS = 4, 300  # that wrote the log, and the files of the peer
ROUNDS = 3

PARQUET = "Spark reads and writes Parquet"
LATEST = "Spark, max_by(value, offset) by key, Parquet"
Figures = tuple[list[Comparison], list[tuple[str, str]]]


def rewrites(spark: SparkSession, folder: Path, scale: int = 1) -> Figures:
    """Comparisons, and the same as MB of keys and values a second. `scale` divides the number of records."""
    comparisons: list[Comparison] = []
    figures: list[tuple[str, str]] = []
    for value_bytes, records in RECORDS.items():
        frame = rows(spark, value_bytes, records // scale)
        for run in (_roll_of_few, _roll_of_many, _compaction):
            if run is _roll_of_many and value_bytes > 100:
                continue  # what it takes to join small batches depends on the records, not on their bytes
            place = folder / "rewrites"
            found = run(frame, place, value_bytes)
            shutil.rmtree(place)
            comparisons += found
            figures.append(_rates(found, frame.count() * (KEY_BYTES + value_bytes)))
        frame.unpersist()
    return comparisons, figures


def _roll_of_few(frame: DataFrame, place: Path, value_bytes: int) -> list[Comparison]:
    return _roll(frame, place, f"{value_bytes} B, batches of about 1 MiB", FEW_TASKS)


def _roll_of_many(frame: DataFrame, place: Path, value_bytes: int) -> list[Comparison]:
    return _roll(frame, place, f"{value_bytes} B, small batches of {MANY_TASKS} tasks", MANY_TASKS)


def _roll(frame: DataFrame, place: Path, label: str, tasks: int) -> list[Comparison]:
    """A log in which nothing is sealed, and as many Parquet files as it has objects."""
    spark, records = frame.sparkSession, frame.count()
    written = frame if tasks == FEW_TASKS else frame.repartition(tasks)
    log, files = _log(place, PARTITIONS, {}), place / "files"
    _append(written, log)
    written.write.option("compression", "zstd").parquet(str(files))

    def ours(log: str) -> None:
        report = run_roll(log, everything=True, tasks=SparkTasks(spark), console=io.StringIO())
        _check(report, report.done.records, records)

    def theirs(out: str) -> None:
        spark.read.parquet(str(files)).write.option("compression", "zstd").parquet(out)

    took = _measured(place, {"ours": ours, "theirs": theirs})
    return [compared(f"roll {records:,} records of {label}", PARQUET, ">= 1", took["ours"], took["theirs"])]


def _compaction(frame: DataFrame, place: Path, value_bytes: int) -> list[Comparison]:
    """Sealed segments in which keys were written four times, at random. The peer's files have the same rows."""
    spark, records = frame.sparkSession, frame.count()
    number = f.pmod(f.xxhash64("value"), f.lit(records // WRITES_OF_A_KEY)).cast("string")
    keyed = frame.withColumn("key", f.to_binary(f.lpad(number, KEY_BYTES, "0"), f.lit("utf-8")))
    keys = keyed.select("key").distinct().count()
    log, files = _log(place, PARTITIONS, {"cleanup.policy": "compact", "segment.bytes": 32 << 20}), place / "files"
    _append(keyed, log)
    source = spark.read.format("sparklog").options(cluster=log, subscribe="t").load()
    source.select("key", "value", "partition", "offset", "timestamp").write.option("compression", "zstd").parquet(
        str(files)
    )
    _check(report := run_roll(log, everything=True, tasks=SparkTasks(spark), console=io.StringIO()), report.failed, 0)

    def ours(log: str) -> None:
        report = run_compaction(
            log, shuffle=SparkKeyShuffle(spark), everything=True, tasks=SparkTasks(spark), console=io.StringIO()
        )
        _check(report, sum(row.compacted.records_after for row in report.partitions if row.compacted), keys)

    def latest(out: str) -> None:
        last = f.max_by(f.struct("value", "partition", "offset", "timestamp"), "offset").alias("last")
        rows = spark.read.parquet(str(files)).groupBy("key").agg(last).select("key", "last.*")
        rows.write.option("compression", "zstd").parquet(out)

    def theirs(out: str) -> None:
        spark.read.parquet(str(files)).write.option("compression", "zstd").parquet(out)

    took = _measured(place, {"ours": ours, LATEST: latest, PARQUET: theirs})
    what = f"compact {records:,} records of {value_bytes} B and {keys:,} keys"
    return [
        compared(what, LATEST, ">= 1", took["ours"], took[LATEST]),
        compared(what, PARQUET, "", took["ours"], took[PARQUET]),
    ]


def _log(place: Path, partitions: int, config: dict[str, object]) -> str:
    url = str(place / "log")
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=partitions, config={"retention.ms": -1, **config})
    return url


def _append(frame: DataFrame, url: str) -> None:
    frame.write.format("sparklog").options(cluster=url, topic="t", compression="zstd").mode("append").save()


def _measured(place: Path, sides: dict[str, Callable[[str], None]]) -> dict[str, list[float]]:
    """Seconds of each round: of sparklog on a new copy of the log, of the others into a new folder."""

    def runs() -> Iterator[tuple[str, Callable[[], None]]]:
        for name, side in sides.items():
            yield name, lambda side=side, name=name: side(str(place / ("round" if name == "ours" else "out")))  # type: ignore[misc]

    def timed(run: Callable[[], object]) -> float:
        for old in ("round", "out"):
            shutil.rmtree(place / old, ignore_errors=True)
        shutil.copytree(place / "log", place / "round", copy_function=os.link)
        return seconds(run)

    return interleaved(dict(runs()), timed, rounds=ROUNDS, warm_up=1)


def _rates(found: list[Comparison], size_bytes: int) -> tuple[str, str]:
    def rate(seconds: Spread) -> str:
        return Spread.of([size_bytes / 1e6 / each for each in (seconds.low, seconds.median, seconds.high)]).shown(0)

    sides = [f"sparklog {rate(found[0].ours_s)}", *(f"{each.peer} {rate(each.peer_s)}" for each in found)]
    figure = "; ".join(sides)
    print(f"{found[0].what}, MB/s: {figure}", flush=True)
    return f"{found[0].what}, MB/s of keys and values", figure


def _check(report: JobReport, found: int, wanted: int) -> None:
    if report.exit_code or found != wanted:
        raise AssertionError(f"wanted {wanted:,}, found {found:,}: {report.to_json()}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        rewrites(session(Path(name), {}), Path(name))


if __name__ == "__main__":
    main()
