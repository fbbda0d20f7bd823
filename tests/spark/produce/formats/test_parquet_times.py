"""INT96 times of Parquet files: those that Spark would cut are found wherever the files and the columns are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from sparklog.core.errors import InvalidInput
from sparklog.spark.produce.input_source import InputSource, checked, open_source, reading

pytestmark = pytest.mark.spark

NS = pa.timestamp("ns")
COARSE, FINE = 1_000, 1_001
NESTED: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "flat": (NS, lambda time: time),
    "a.b c": (pa.struct([("x", pa.binary()), ("y.z", pa.struct([("at", NS)]))]), lambda t: {"y.z": {"at": t}}),
    "list": (pa.list_(NS), lambda time: [None, COARSE, time]),
    "structs": (pa.list_(pa.struct([("at", NS), ("n", pa.int64())])), lambda time: [None, {"at": time, "n": 1}]),
    "keys": (pa.map_(NS, pa.binary()), lambda time: [(COARSE, b"\1" * 12), (time, b"\1" * 12)]),
    "values": (pa.map_(pa.string(), pa.list_(NS)), lambda time: [("a", None), ("b", [time])]),
}


def write(path: Path, columns: dict[str, tuple[pa.DataType, Sequence[Any]]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)


def opened(spark: SparkSession, path: Path | str, **options: str) -> int:
    source = checked(InputSource(str(path), None, "parquet", options))
    with reading(source, spark):
        return open_source(source, spark).count()


@pytest.mark.parametrize("name", NESTED)
def test_int96_times_with_nanoseconds_are_found_however_deep_they_lie(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    kind, nested = NESTED[name]
    write(tmp_path / "a.parquet", {"n": (pa.binary(), [b"\1" * 12, None]), name: (kind, [None, nested(COARSE)])})
    assert opened(spark, tmp_path / "a.parquet") == 2
    write(tmp_path / "a.parquet", {"n": (pa.binary(), [b"\1" * 12, None]), name: (kind, [None, nested(FINE)])})
    with pytest.raises(InvalidInput, match=rf"a.parquet: Spark has no times in nano.* in column {name} \(INT96"):
        opened(spark, tmp_path / "a.parquet")


def test_they_are_found_in_folders_and_patterns_as_in_files(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in" / "day=1" / "a.parquet", {"at": (NS, [COARSE, None, -COARSE])})
    old = [datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1969, 12, 31, 23, 59, 59, 1)]
    write(tmp_path / "in" / "day=1" / "b.parquet", {"at": (pa.timestamp("us"), old), "n": (pa.int64(), [1, 2, 3])})
    pq.write_table(pa.table({"at": pa.array(old, pa.timestamp("us", "UTC"))}), tmp_path / "in" / "day=1" / "c.parquet")
    assert opened(spark, tmp_path / "in") == 9
    assert opened(spark, f"{tmp_path}/in/day=1/[ab]*", mergeSchema="false") == 6
    write(tmp_path / "in" / "day=2" / "d [1]%20.parquet", {"n": (pa.int64(), [1]), "at": (NS, [FINE])})
    for path in (f"{tmp_path}/in", f"{tmp_path}/in/day=*", f"{tmp_path}/{{in,out}}", f"file://{tmp_path}/in/*/[cd]*"):
        for options in ({}, {"mergeSchema": "false"}, {"recursiveFileLookup": "true"}):
            with pytest.raises(InvalidInput, match=r"in/day=2/d \[1\]%20.parquet: .* column at"):
                opened(spark, path, **options)
    assert opened(spark, tmp_path / "in", pathGlobFilter="[abc]*") == 9


def test_files_of_spark_are_not_read_twice_but_one_that_keeps_its_name_is(spark: SparkSession, tmp_path: Path) -> None:
    times = spark.range(3).coalesce(1).select(sql.timestamp_micros("id").alias("at"))
    times.write.option("spark.sql.parquet.outputTimestampType", "INT96").parquet(f"{tmp_path}/in")
    (written,) = (tmp_path / "in").glob("*.parquet")
    assert pq.ParquetFile(written).schema.column(0).physical_type == "INT96"
    jobs = spark.sparkContext.statusTracker()
    before = len(jobs.getJobIdsForGroup())
    assert opened(spark, tmp_path / "in") == 3
    of_spark = len(jobs.getJobIdsForGroup()) - before
    table = pq.read_table(written)
    assert b"org.apache.spark.version" in table.schema.metadata
    write(tmp_path / "plain.parquet", {"n": (pa.int64(), [1])})
    before = len(jobs.getJobIdsForGroup())
    opened(spark, tmp_path / "plain.parquet")
    assert of_spark == len(jobs.getJobIdsForGroup()) - before
    fine = table.set_column(0, "at", pa.array([FINE] * 3, NS))
    pq.write_table(fine, tmp_path / "kept.parquet", use_deprecated_int96_timestamps=True)
    with pytest.raises(InvalidInput, match=r"kept.parquet: .* column at"):
        opened(spark, tmp_path / "kept.parquet")


def test_files_without_a_writer_and_columns_of_any_name_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"_metadata": (NS, [COARSE])})
    body = (tmp_path / "a.parquet").read_bytes()
    assert opened(spark, tmp_path / "a.parquet") == 1
    (tmp_path / "a.parquet").write_bytes(without_created_by(body))
    assert pq.ParquetFile(tmp_path / "a.parquet").metadata.created_by == ""
    assert opened(spark, tmp_path / "a.parquet") == 1
    write(tmp_path / "b.parquet", {"_metadata": (NS, [FINE])})
    with pytest.raises(InvalidInput, match=r"b.parquet: .* column _metadata"):
        opened(spark, tmp_path / "b.parquet")


def without_created_by(body: bytes) -> bytes:
    """The file without the optional field of the footer that names the writer: field 6 of the struct, as text."""
    name = pq.ParquetFile(pa.BufferReader(body)).metadata.created_by.encode()
    length = int.from_bytes(body[-8:-4], "little")
    footer = body[-8 - length : -8]
    # Compact Thrift: a field's header has the distance from the field before it, so the next one gets one more.
    begin = footer.rindex(bytes([0x18, len(name)]) + name)
    end = begin + 2 + len(name)
    rest = footer[end:]
    if rest[0]:
        rest = bytes([rest[0] + 0x10]) + rest[1:]
    footer = footer[:begin] + rest
    return body[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_files_and_columns_that_spark_does_not_read_stop_no_run(spark: SparkSession, tmp_path: Path) -> None:
    part = pa.struct([("at", NS)])
    for name in "ab":
        write(tmp_path / f"{name}.parquet", {"at": (NS, [COARSE]), "s": (part, [{"at": COARSE}])})
    (tmp_path / "empty.parquet").touch()  # if Spark merges schemas, it refuses the file itself
    assert opened(spark, tmp_path, mergeSchema="false") == 2
    (tmp_path / "empty.parquet").unlink()
    both = pa.struct([("at", NS), ("other", NS)])
    others: dict[str, Any] = {"s": (both, [{"at": COARSE, "other": FINE}]), "other": (NS, [FINE])}
    write(tmp_path / "z.parquet", {"at": (NS, [COARSE]), **others})
    assert opened(spark, tmp_path, mergeSchema="false") == 3
    with pytest.raises(InvalidInput, match=r"z.parquet: .* column"):
        opened(spark, tmp_path)
    (tmp_path / "z.parquet").write_bytes(b"PAR1 damaged PAR1")
    assert opened(spark, tmp_path, ignoreCorruptFiles="true") == 2
    for merged in ("true", "false"):
        with pytest.raises(InvalidInput, match=r"z.parquet"):
            opened(spark, tmp_path, mergeSchema=merged)
