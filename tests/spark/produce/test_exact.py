"""What stands in a file arrives as it stands there, whatever the other rows, the folders or the session say."""

from __future__ import annotations

import datetime as dt
import gzip
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sparklog.core.errors import InvalidInput, InvalidOption, InvalidRecord, SparklogError
from sparklog.spark.produce.formats.bad_rows import BadRows, OnBadRow
from sparklog.spark.produce.formats.text_files import settings
from sparklog.spark.produce.input_source import InputSource
from sparklog.spark.produce.produce_job import NewTopic
from sparklog.spark.produce.rows import RowMapping
from tests.spark.produce.produce_runs import Runs
from tests.spark.produce.produce_runs import produce as produce

pytestmark = pytest.mark.spark

ONE = NewTopic(1)
BIG = "12345678901234567890123456789012345678901"


@pytest.fixture
def lenient(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that makes nulls of what it can't read, in another zone than UTC."""
    given = {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.session.timeZone": "Asia/Tokyo",
    }
    before = {name: spark.conf.get(name) for name in given}
    for name, value in given.items():
        spark.conf.set(name, value)
    yield spark
    for name, text in before.items():
        spark.conf.set(name, str(text))


def test_a_json_key_has_the_digits_of_its_row_whatever_the_other_rows_have(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    rows = ["9007199254740993", "0.5", "1.10", BIG, '"x\\u00e9"', "null", "true", '{"b": 1.0, "a": [1, 2]}']
    path.write_text("".join(f'{{"id": {each}, "n": 1}}\n' for each in rows) + '{"n": 2}\n')
    produce(path, RowMapping(key=("id",), value_columns=("n", "id")), create=ONE)
    texts = ["9007199254740993", "0.5", "1.10", BIG, "xé", None, "true", '{"b":1.0,"a":[1,2]}', None]
    assert [key if key is None else key.decode() for (key,) in produce.rows("key")] == texts
    values = [value.decode() for (value,) in produce.rows("value")]
    assert values[0] == '{"n":1,"id":9007199254740993}'
    assert values[3] == f'{{"n":1,"id":{BIG}}}'
    assert values[4:6] == ['{"n":1,"id":"xé"}', '{"n":1,"id":null}']
    assert values[-1] == '{"n":2,"id":null}'


def test_equal_fields_make_equal_keys_however_they_are_written(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": "caf\\u00e9", "b": [1,2]}\n{"b":[1, 2], "a":"café"}\n')
    produce(path, RowMapping(key=("a", "b")), create=ONE)
    assert [key.decode() for (key,) in produce.rows("key")] == ['{"a":"café","b":[1,2]}'] * 2


def test_json_that_spark_cannot_read_is_an_error_and_no_null_where_it_is_used(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    odd = (
        '{"id": 2, "n": ' + "1" * 1100 + "}",
        '{"id": 3, "m": 1e400, "ID": 4}',
        '{"id": 5, "t": "\\ud83d", "\\ud83d": 6}',
    )
    path.write_text("\n".join(('{"id": 1, "n": 2, "m": 0.5, "t": "x"}', *odd)))
    for mapping, where in (
        (RowMapping(key_expr="n"), None),
        (RowMapping(value_expr="t"), None),
        (RowMapping(key=("t",)), None),
        (RowMapping(), "m < 1"),
    ):
        with pytest.raises(InvalidRecord, match="half of a surrogate pair"):
            produce(InputSource(str(path), where=where), mapping, create=ONE)
        assert produce.cluster.topics() == []
    produce(path, RowMapping(key=("m", "n"), value_columns=("t", "m")), create=ONE)
    assert [key for (key,) in produce.rows("key")][2] == b'{"m":1e400,"n":null}'
    assert [value for (value,) in produce.rows("value")][2:] == [b'{"t":null,"m":1e400}', b'{"t":"\\ud83d","m":null}']
    produce(path)
    assert [value.decode() for (value,) in produce.rows("value")][5:] == list(odd), "as they are in the file"
    path.write_text('{"only": "\\ud83d"}')
    produce(path, RowMapping(value_columns=("only",)))
    assert produce.values()[-1] == {"only": "\ud83d"}


def test_an_object_that_is_nested_too_deeply_is_a_bad_row(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("".join('{"a":' * deep + '"{[{"' + "}" * deep + "\n" for deep in (100, 101, 600, 5000)))
    produce(path, create=ONE, bad_rows=BadRows(OnBadRow.SKIP))
    assert len(produce.rows("value")) == 1
    assert "3 bad rows left out, the first: " in produce.said.getvalue()
    assert "at most 100 levels of nested objects and arrays" in produce.said.getvalue()
    document = tmp_path / "b.json"
    document.write_text("[" * 5000 + "]" * 5000)
    with pytest.raises(InvalidRecord, match="at most 100"):
        produce(InputSource(str(document), options={"multiLine": "true"}))


def test_an_object_that_names_a_field_twice_stays_as_it_is_and_the_last_one_is_meant(
    produce: Runs,
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1, "a": 2}\n')
    produce(InputSource(str(path), where="a = 2"), RowMapping(key=("a",)), create=ONE)
    assert produce.rows("key", "value") == [(b"2", b'{"a": 1, "a": 2}')]


def test_a_lenient_session_loses_nothing(lenient: SparkSession, produce: Runs, tmp_path: Path) -> None:
    times = tmp_path / "times.csv"
    times.write_text("id,at\n1,2024-01-01 00:00:00\n2,2024-01-01 00:00:00 or so\n")
    for mapping in (RowMapping(timestamp="at"), RowMapping(timestamp_expr="to_timestamp(at, 'yyyy-MM-dd HH:mm:ss')")):
        with pytest.raises(SparklogError, match="or so"):
            produce(times, mapping, create=ONE)
    assert produce.cluster.topics() == []
    produce(InputSource(str(times), where="id = '1'"), RowMapping(timestamp="at"), create=ONE)
    assert produce.rows("timestamp")[0][0].timestamp() == 1_704_067_200  # UTC, and not Tokyo
    damaged = tmp_path / "damaged.csv.gz"
    damaged.write_bytes(gzip.compress(b"id\n" + b"".join(b"%d\n" % each for each in range(100_000)))[:-100])
    with pytest.raises(InvalidInput, match="damaged"):
        produce(damaged)
    assert {name: lenient.conf.get(name) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")} == {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
    }


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_values_of_folders_are_text_in_every_format(produce: Runs, tmp_path: Path, kind: str) -> None:
    for value in ("01234", "NaN", "Infinity", "1e3"):
        path = tmp_path / "in" / f"zip={value}" / f"a.{kind}"
        path.parent.mkdir(parents=True)
        if kind == "csv":
            path.write_text("n\n1\n")
        elif kind == "json":
            path.write_text('{"n": 1}\n')
        else:
            pq.write_table(pa.table({"n": [1]}), path)
    produce(tmp_path / "in", RowMapping(key=("zip",)), create=ONE)
    assert sorted(key for (key,) in produce.rows("key")) == [b"01234", b"1e3", b"Infinity", b"NaN"]
    assert sorted(value["zip"] for value in produce.values()) == ["01234", "1e3", "Infinity", "NaN"]


def test_a_document_of_many_lines_below_a_folder_named_nan_is_read_whole(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "in" / "x=NaN" / "a.json"
    path.parent.mkdir(parents=True)
    path.write_text("[\n" + ",\n".join(['{"n": 1}'] * 12_000) + "\n]\n")
    produce(InputSource(str(tmp_path / "in"), options={"multiLine": "true"}), create=ONE)
    assert len(produce.rows("value")) == 12_000


def test_a_folder_never_replaces_a_column_of_the_files(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a=1" / "in" / "year=2024" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"a": ["x"], "Year": ["1999"]}), path)
    with pytest.raises(InvalidInput, match="is a column of the files and the name of folders"):
        produce(path.parent.parent, create=ONE)
    produce(InputSource(str(path.parent.parent), options={"recursiveFileLookup": "true"}), create=ONE)
    assert produce.values() == [{"a": "x", "Year": "1999"}]


def test_a_time_of_day_does_not_become_one_of_today(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("opens,at\n10:11,2024-01-01T10:11:12\n,\n12:00:01, 2024-01-02 10:00:00\n")
    produce(InputSource(str(path), options={"inferSchema": "true"}), create=ONE)
    assert [each.get("opens") for each in produce.values()] == ["10:11", "", "12:00:01"]
    assert [each["at"] for each in produce.values()] == [
        "2024-01-01T10:11:12.000000Z",
        None,
        "2024-01-02T10:00:00.000000Z",
    ]


@pytest.mark.parametrize("name", ["a.csv.zst", "a.jsonl.lz4", "a.csv.snappy"])
def test_packed_files_that_are_not_read_safely_are_refused(produce: Runs, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(InvalidInput, match=r"can't be read safely: unpack it, as by .*, or pack it as \.gz or \.bz2"):
        produce(tmp_path / name, create=ONE)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.csv", "id,sparklog_bad_row\n1,2\n"),
        ("a.json", '{"SPARKLOG_JSON": 1}\n'),
        ("Sparklog_File=1/a.csv", "id\n1\n"),
    ],
)
def test_columns_with_the_names_of_our_own_are_refused(produce: Runs, tmp_path: Path, name: str, body: str) -> None:
    path = tmp_path / "in" / name
    path.parent.mkdir(parents=True)
    path.write_text(body)
    with pytest.raises(InvalidInput, match=r"the column name (?i:sparklog_.*) is reserved for sparklog"):
        produce(tmp_path / "in", create=ONE)


def test_text_that_begins_like_the_name_of_a_packer_is_text(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("BZh9,PAR1\n1,2\n")
    produce(path, create=ONE)
    assert produce.values() == [{"BZh9": "1", "PAR1": "2"}]


@pytest.mark.parametrize("option", ["key_expr", "timestamp_expr", "value_expr"])
def test_an_expression_never_sees_the_columns_that_are_added_here(produce: Runs, tmp_path: Path, option: str) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    (tmp_path / "a.csv").write_text("id\n1\n")
    mapping = RowMapping(
        **{option: "timestamp_seconds(length(to_json(struct(*))))" if "time" in option else "struct(*)"}
    )
    for name in ("a.json", "a.csv"):
        with pytest.raises(InvalidOption, match="wanted columns by their names"):
            produce(tmp_path / name, mapping, create=ONE)
    assert produce.cluster.topics() == []


@pytest.mark.parametrize("text", ["struct(*) is not null", "concat(*) = '1'"])
def test_a_condition_never_sees_the_columns_that_are_added_here(produce: Runs, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text('{"id": "1"}\n')
    (tmp_path / "a.csv").write_text("id\n1\n")
    pq.write_table(pa.table({"id": ["1"]}), tmp_path / "a.parquet")
    for name in ("a.json", "a.csv"):
        with pytest.raises(InvalidOption, match=r"--where: wanted columns by their names, found \* in"):
            produce(InputSource(str(tmp_path / name), where=text), create=ONE)
    produce(InputSource(str(tmp_path / "a.parquet"), where=text), create=ONE)  # nothing is added to its columns
    assert produce.values() == [{"id": "1"}]


def test_a_star_that_can_not_stand_for_the_columns_that_are_added_here_is_refused_likewise(
    produce: Runs, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    with pytest.raises(InvalidOption, match=r"--value-expr: wanted columns by their names, found \* in"):
        produce(tmp_path / "a.csv", RowMapping(value_expr="concat(*)"), create=ONE)


def test_years_that_have_not_four_digits_have_a_sign_as_in_iso_8601(
    spark: SparkSession, produce: Runs, tmp_path: Path
) -> None:
    years = {"before": "-0010", "zero": "0000", "first": "0001", "late": "+12010"}
    path = str(tmp_path / "years")
    spark.sql(
        "select "
        + ", ".join(f"timestamp '{year}-01-02 03:04:05Z' as {name}" for name, year in years.items())
        + ", date '-0010-01-02' as day, timestamp_ntz '-0010-01-02 03:04:05' as no_zone"
    ).write.parquet(path)
    produce(InputSource(path), RowMapping(key=("day",)), create=ONE)
    times = {name: f"{year}-01-02T03:04:05.000000Z" for name, year in years.items()}
    assert produce.values() == [{**times, "day": "-0010-01-02", "no_zone": "-0010-01-02T03:04:05.000000"}]
    assert produce.rows("key") == [(b"-0010-01-02",)]


@pytest.mark.parametrize("text", ["count(*)", "max(id)", "explode(array('a', 'b'))"])
def test_an_expression_makes_one_record_of_each_row(produce: Runs, tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n2\n3\n")
    with pytest.raises(InvalidOption, match="wanted an expression over one row"):
        produce(path, RowMapping(value_expr=text), create=ONE)


@pytest.mark.sparks("produce")
def test_an_expression_that_spark_allows_elsewhere_only_is_bad_input(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n2\n")
    with pytest.raises(InvalidOption, match=r"--where: 'row_number\(\) .*' can't be used: .*window functions"):
        produce(InputSource(str(path), where="row_number() over (order by id) = 1"), create=ONE)
    assert produce.cluster.topics() == []


def test_a_field_with_spark_s_name_for_corrupt_records_is_read_like_any_other(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"_corrupt_record": "x"}\n{"_corrupt_record": "y"}\n')
    produce(InputSource(str(path), where="_corrupt_record = 'x'"), RowMapping(key_expr="_corrupt_record"), create=ONE)
    assert produce.rows("key") == [(b"x",)]


@pytest.mark.parametrize("text", ["00:11:12", "T00:11", " 0:11"])
def test_a_timestamp_without_a_date_is_an_error(produce: Runs, tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"at\n2024-01-01\n{text}\n")
    with pytest.raises(InvalidInput, match=f"--timestamp at: .*no date: {text}"):
        produce(path, RowMapping(timestamp="at"), create=ONE)
    assert produce.cluster.topics() == []


def test_fields_that_differ_in_case_are_two_fields(produce: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\n{"ID": 2}\n')
    produce(path, RowMapping(key=("ID",)), create=ONE)
    assert produce.rows("key") == [(None,), (b"2",)]
    with pytest.raises(InvalidOption, match="AMBIGUOUS"):
        produce(InputSource(str(path), where="ID = 2"))


@pytest.mark.parametrize("kind", [pa.date32(), pa.binary(), pa.timestamp("us")])
@pytest.mark.parametrize("mapping", [RowMapping(), RowMapping(value_columns=("m",)), RowMapping(value_expr="m")])
def test_maps_whose_keys_json_does_not_have_are_refused(
    produce: Runs, tmp_path: Path, kind: pa.DataType, mapping: RowMapping
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"m": pa.array([[]], pa.map_(kind, pa.int32()))}), path)
    with pytest.raises(InvalidInput, match="wanted maps with keys that are text"):
        produce(path, mapping, create=ONE)
    assert produce.cluster.topics() == []


def test_parquet_is_read_as_pyarrow_reads_it_whatever_the_session_says(
    spark: SparkSession, produce: Runs, tmp_path: Path
) -> None:
    path, old = tmp_path / "in" / "a.parquet", tmp_path / "old.parquet"
    path.parent.mkdir()
    day, time = dt.date(1000, 1, 1), dt.datetime(1000, 1, 1)  # without a zone
    pq.write_table(pa.table({"day": [day], "time": pa.array([time], pa.timestamp("us")), "b": [b"\xff"]}), path)
    pq.write_table(pa.table({"time": pa.array([time])}), old, use_deprecated_int96_timestamps=True)
    lenient = {
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
        "spark.sql.parquet.binaryAsString": "true",
        "spark.sql.sources.useV1SourceList": "",
    }
    with settings(spark, lenient):
        produce(path, create=ONE)
        produce(old)
    first, second = produce.values()
    assert first == {"day": "1000-01-01", "time": "1000-01-01T00:00:00.000000", "b": "/w=="}
    assert second == {"time": "1000-01-01T00:00:00.000000Z"}
