"""Files that nobody here made: every row read back is the one that Python's csv, json and pyarrow read in them."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import UTC
from pathlib import Path
from typing import Any

import airportsdata
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sparklog.core.errors import InvalidRecord
from sparklog.spark.produce.formats.bad_rows import BadRows, OnBadRow
from sparklog.spark.produce.input_source import InputSource
from sparklog.spark.produce.produce_job import NewTopic
from sparklog.spark.produce.rows import RowMapping
from tests.spark.produce.produce_runs import Runs
from tests.spark.produce.produce_runs import produce as produce

pytestmark = pytest.mark.spark

AIRPORTS = Path(airportsdata.__file__).parent / "airports.csv"


@pytest.fixture(scope="module")
def airports() -> list[dict[str, str]]:
    """As Python's csv module reads them."""
    with AIRPORTS.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert len(found) > 28_000
    assert any('"' in each["name"] for each in found)
    return found


def test_a_csv_file_comes_back_as_pythons_csv_module_reads_it(produce: Runs, airports: list[dict[str, str]]) -> None:
    report = produce(AIRPORTS, RowMapping(key=("icao",)), create=NewTopic(1))
    assert produce.values() == airports
    assert [key.decode() for (key,) in produce.rows("key")] == [each["icao"] for each in airports]
    assert (report.records, report.bad_rows) == (len(airports), 0)


@pytest.mark.parametrize("options", [{}, {"multiLine": "false"}])
def test_a_directory_of_packed_csv_comes_back_whole(
    produce: Runs, tmp_path: Path, airports: list[dict[str, str]], options: dict[str, str]
) -> None:
    folder = tmp_path / "in"
    wanted = []
    for number in range(3):
        part = airports[number * 200 : number * 200 + 200]
        path = folder / f"code=00{number}" / f"part {number}.csv.gz"
        path.parent.mkdir(parents=True)
        with gzip.open(path, "wt", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, list(part[0]))
            writer.writeheader()
            writer.writerows(part)
        wanted += [{**each, "code": f"00{number}"} for each in part]
    produce(InputSource(str(folder), options=options), create=NewTopic(1))
    assert sorted(produce.values(), key=lambda each: each["icao"]) == wanted


def test_json_lines_come_back_letter_by_letter_and_a_broken_one_stops_or_is_set_aside(
    produce: Runs, tmp_path: Path, airports: list[dict[str, str]]
) -> None:
    path = tmp_path / "airports.jsonl"
    rows: list[dict[str, Any]] = [
        {**each, "lat": float(each["lat"]), "runs": [1, {"a": None}]} for each in airports[:500]
    ]
    rows[7] = {"icao": "odd", "big": 12345678901234567890123, "é": "\u2028"}
    lines = [json.dumps(each, ensure_ascii=number % 2 == 0) for number, each in enumerate(rows)]
    broken = '{"icao": "cut o'
    path.write_text("\n".join([*lines[:100], broken, *lines[100:]]) + "\n", encoding="utf-8")
    with pytest.raises(InvalidRecord, match=r"airports\.jsonl, line 101: wanted a JSON object"):
        produce(path, create=NewTopic(1))
    bad_rows = BadRows(OnBadRow.DEAD_LETTER, "dead")
    report = produce(path, RowMapping(key=("icao",)), create=NewTopic(1), bad_rows=bad_rows)
    assert [(key.decode(), value.decode()) for key, value in produce.rows("key", "value")] == [
        (row["icao"], line) for row, line in zip(rows, lines, strict=True)
    ]
    assert produce.values() == rows
    assert produce.rows("value", topic="dead") == [(broken.encode(),)]
    assert (report.records, report.bad_rows) == (500, 1)


def test_parquet_in_folders_of_years_comes_back_with_every_digit_of_its_times(produce: Runs, tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    times = [1_357_034_400_123_456, 1_388_570_400_000_001, None, 1_372_651_200_000_000]
    for year, kind, more in ((2013, "America/New_York", {}), (2014, "UTC", {"note": ["new", None, "", "x"]})):
        (folder / f"year={year}").mkdir(parents=True)
        columns = {
            "n": pa.array([1, None, 3, 2**62]),
            "at": pa.array(times, pa.timestamp("us", kind)),
            "local": pa.array(times, pa.timestamp("us")),
            "delay": [0.1, -0.0, 1e300, None],
        }
        pq.write_table(pa.table(columns | more), folder / f"year={year}" / "a.parquet")
    produce(folder, RowMapping(timestamp="at"), create=NewTopic(1))
    schema = pa.schema(
        {"n": pa.int64(), "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"), "delay": pa.float64()}
        | {"note": pa.string(), "year": pa.string()}
    )
    wanted = ds.dataset(folder, schema=schema, partitioning="hive").to_table().to_pylist()
    for each in wanted:
        each["at"] = each["at"] and each["at"].astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        each["local"] = each["local"] and each["local"].isoformat(timespec="microseconds")

    def order(row: dict[str, Any]) -> tuple[str, int]:
        return row["year"], row["n"] or 0

    assert sorted(produce.values(), key=order) == sorted(wanted, key=order)
    assert [each.isoformat() for (each,) in produce.rows("timestamp")[:2]] == [
        "2013-01-01T10:00:00.123456+00:00",
        "2014-01-01T10:00:00.000001+00:00",
    ]
