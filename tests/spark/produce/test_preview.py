"""What --dry-run counts and shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.cli.records.produce_files import main
from sparklog.client.bootstrap import init_cluster
from sparklog.spark.produce.preview import CHARACTERS_SHOWN, ROWS_SHOWN, Preview, preview


@pytest.mark.spark
def test_it_counts_all_rows_and_shows_the_first(spark: SparkSession) -> None:
    rows = spark.sql(
        """select if(id = 0, null, cast(id as string)) as key, if(id = 1, null, repeat('é', 500)) as value,
           timestamp_millis(1704067200000 + id) as timestamp, cast(id % 2 as int) as partition from range(10)"""
    )
    seen = preview(rows)
    assert (seen.records, seen.without_key, seen.without_value, seen.size_bytes) == (10, 1, 1, 9 + 9 * 1000)
    assert (seen.oldest_us, seen.newest_us, seen.partitions) == (1_704_067_200_000_000, 1_704_067_200_009_000, (0, 1))
    assert len(seen.first) == ROWS_SHOWN
    assert seen.first[0].startswith("key=null  value=" + "é" * (CHARACTERS_SHOWN - 1) + "…  timestamp=")
    assert list(seen.remarks()) == [
        "1 row without a key",
        "1 row without a value: tombstones",
        "timestamps from 2024-01-01T00:00:00.000Z to 2024-01-01T00:00:00.009Z",
        "partitions 0, 1",
    ]


def test_times_that_no_calendar_shows_are_counted_too() -> None:
    seen = Preview(1, 0, 0, 1, -(10**18), 253_402_300_800_000_000, (), ())
    assert list(seen.remarks()) == [
        "timestamps from -1000000000000000000 us (before the year 1) to 253402300800000000 us (after the year 9999)"
    ]


@pytest.mark.spark
def test_rows_of_values_alone_have_no_keys_and_no_times(spark: SparkSession) -> None:
    seen = preview(spark.sql("select X'00' as value where false"))
    assert (seen.records, seen.size_bytes, seen.oldest_us, seen.partitions, seen.first) == (0, 0, None, (), ())


@pytest.mark.spark
def test_the_plan_of_a_dry_run_goes_to_stdout(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sparklog.spark.job_session.job_session", lambda name: spark)
    url, file = tmp_path / "cluster", tmp_path / "a.csv"
    init_cluster(str(url))
    file.write_text("a\n1\n")
    assert main(f"--topic t --cluster {url} {file} --create --dry-run".split()) == 0
    out, err = capfd.readouterr()
    assert out.startswith(f"{file}: 1 row, columns a\n")
    assert '  value={"a":"1"}' in out
    assert err == ""
