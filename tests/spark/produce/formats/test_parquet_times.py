"""INT96 times of Parquet files: those that Spark would cut are found before it starts. No Spark."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklog.core.errors import InvalidInput
from sparklog.spark.produce.input_source import InputSource, checked


def test_old_times_with_nanoseconds_are_refused_before_spark_cuts_them(tmp_path: Path) -> None:
    def write(name: str, values: list[object], unit: str) -> None:
        table = pa.table({"at": pa.array(values, pa.timestamp(unit)), "n": range(len(values))})
        pq.write_table(table, tmp_path / name, use_deprecated_int96_timestamps=True)

    write("a.parquet", [1_000, None, -1_000], "ns")
    write("b.parquet", [datetime(1000, 1, 1), datetime(9999, 12, 31)], "us")
    (tmp_path / "c.parquet").write_bytes(b"no Parquet")
    assert checked(InputSource(str(tmp_path))).format == "parquet"
    write("d.parquet", [1_000, 1_001], "ns")
    for path in (tmp_path, tmp_path / "d.parquet"):
        with pytest.raises(InvalidInput, match=r"d.parquet: Spark has no times in nanoseconds, found .* column at"):
            checked(InputSource(str(path)))
