"""Which files are read, as what, and what is said of those that can't be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from msgspec.structs import replace
from py4j.java_gateway import GatewayClient  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from sparklog.core.errors import InvalidInput, InvalidOption, NotFound, SparklogError
from sparklog.spark.produce.input_source import InputSource, checked, hidden_files, open_source
from sparklog.spark.produce.listed_files import listed_files
from sparklog.spark.produce.rows import visible


@pytest.mark.parametrize(
    ("files", "path", "found"),
    [
        (["a.csv"], "a.csv", "csv"),
        (["a.CSV.gz"], "a.CSV.gz", "csv"),
        (["a.ndjson"], "a.ndjson", "json"),
        (["d/part-0.snappy.parquet", "d/_SUCCESS", "d/.crc"], "d", "parquet"),
        (["d/day=1/a.json", "d/day=2/b.jsonl", "d/_temporary/c.csv"], "d", "json"),
    ],
)
def test_the_format_is_guessed_by_suffix(tmp_path: Path, files: list[str], path: str, found: str) -> None:
    for each in files:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    assert checked(InputSource(str(tmp_path / path))).format == found
    assert checked(InputSource(f"file://{tmp_path / path}")).format == found


def test_a_tsv_file_is_csv_with_tabs_unless_a_separator_is_given(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").touch()
    source = InputSource(str(tmp_path / "a.tsv.gz"))
    found = checked(source)
    assert (found.format, found.options) == ("csv", {"sep": "\t"})
    given = {"Delimiter": ";"}
    assert checked(replace(source, options=given)).options == given
    (tmp_path / "b.csv").touch()
    with pytest.raises(InvalidOption, match="wanted files of one format, found csv and tsv"):
        checked(InputSource(str(tmp_path)))


def test_what_is_elsewhere_or_a_pattern_is_guessed_by_its_own_suffix() -> None:
    assert checked(InputSource("s3a://bucket/in/*.parquet")).format == "parquet"
    assert checked(InputSource("hdfs://host/day.csv/")).format == "csv"


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (InputSource(), InvalidOption, "found neither"),
        (InputSource("a.csv", "t"), InvalidOption, "found both"),
        (InputSource("", format="csv"), InvalidOption, "found an empty one"),
        (InputSource(table=""), InvalidOption, "found an empty one"),
        (InputSource(table="t", format="csv"), InvalidOption, "a table has its own format"),
        (InputSource("{}/none.csv"), NotFound, "found nothing at"),
        (
            InputSource("{}/text"),
            InvalidOption,
            "found csv and files with unknown suffixes in .*, or give --format csv",
        ),
        (
            InputSource("{}/mixed"),
            InvalidOption,
            r"found csv and json in .* by a glob \(`--format csv` would read the JSON files as CSV\)",
        ),
        (InputSource("{}/empty"), InvalidInput, "found no file"),
        (InputSource("{}/nested"), InvalidInput, "found .*nested/below/b.csv: give --option recursiveFileLookup=true"),
        (InputSource("{}/a.zip"), InvalidInput, "unpack it first"),
        (InputSource("{}/a.xlsx"), InvalidOption, "give --format"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_before_spark_starts(
    tmp_path: Path, source: InputSource, kind: type[SparklogError], message: str
) -> None:
    for each in (
        "text/a.csv",
        "text/readme",
        "mixed/a.csv",
        "mixed/b.json",
        "nested/a.csv",
        "nested/below/b.csv",
        "a.zip",
        "a.xlsx",
    ):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    (tmp_path / "empty").mkdir()
    path = None if source.path is None else source.path.format(tmp_path)
    with pytest.raises(kind, match=message):
        checked(InputSource(path, source.table, source.format))


@pytest.mark.parametrize(
    ("files", "path", "message"),
    [
        (("a.csv", "day=1/b.csv"), "", "no files beside name=value folders, found .*a.csv"),
        (("day=1/a.csv", "day=1/hour=2/b.csv"), "", "no files beside name=value folders"),
        (("value=5/a.csv",), "", "a folder value=… can't be a column"),
        (("_orders.json",), "_orders.json", r"files whose names begin with _ or \."),
        (("_a.json", "b.json"), "*.json", r"files whose names begin with _ or \."),
        (("_a.json", "b.json"), "", r"files whose names begin with _ or \., .* found _a.json at .*DIR/\[!_\.\]\*"),
        ((".a.csv", "b.csv", "_SUCCESS"), "", r"files whose names begin with _ or \., .* found \.a.csv at"),
        (("day=1/_a.csv", "day=1/b.csv"), "", "found day=1/_a.csv at"),
        (("day1/_a.csv", "day1/b.csv", "day2/c.csv"), "day*", "found _a.csv at .*/day1"),
        (("a.csv", "b.csv._COPYING_"), "", "or end with ._COPYING_, found b.csv._COPYING_ at"),
        (("_x/_x", "a.csv", "_b.csv"), "", "found _b.csv at"),
        (("orders[1].csv", "orders1.csv"), "orders[1].csv", "exists, but .* make a path a pattern"),
        (("day1/a.csv", "day1/late/b.csv"), "day*", "no files in sub-folders, found .*late"),
    ],
)
def test_files_that_spark_would_leave_out_or_mistake_are_refused(
    tmp_path: Path, files: tuple[str, ...], path: str, message: str
) -> None:
    for each in files:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    with pytest.raises(InvalidInput, match=message):
        checked(InputSource(f"{tmp_path}/{path}".rstrip("/")))


def test_a_link_to_a_missing_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    assert checked(InputSource(str(tmp_path))).format == "csv"
    (tmp_path / "c.csv").symlink_to(tmp_path / "none")
    for path in (str(tmp_path), f"{tmp_path.parent}/{tmp_path.name}*"):
        with pytest.raises(InvalidInput, match=r"c\.csv is a link to a file that is missing"):
            checked(InputSource(path, None, "csv"))


MARKS = ("_SUCCESS", ".part-0.crc", "._a.csv", ".DS_Store", "_temporary/0/b.csv", "_delta_log/_last_checkpoint")


def _write(folder: Path, files: Sequence[str]) -> None:
    for each in files:
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        (folder / each).write_text("n\n1\n")


def test_known_marks_and_files_that_a_filter_leaves_out_are_no_hindrance(tmp_path: Path) -> None:
    _write(tmp_path, ("a.csv", *MARKS, "_b.txt"))
    filtered = {"pathGlobFilter": "*.csv"}
    assert checked(InputSource(str(tmp_path), None, "csv", filtered)).format == "csv"
    with pytest.raises(InvalidInput, match=r"found _b\.txt"):
        checked(InputSource(str(tmp_path), None, "csv", {"pathGlobFilter": "*.{csv,txt}"}))
    (tmp_path / "_b.txt").unlink()
    assert checked(InputSource(str(tmp_path))).format == "csv"
    assert checked(InputSource(f"{tmp_path}/[!d]*.c*", None, "csv")).format == "csv", "a pattern that matches marks"
    _write(tmp_path, ("_day=1/b.csv",))
    with pytest.raises(InvalidInput, match="no files beside name=value folders"):  # Spark does look into such a folder
        checked(InputSource(str(tmp_path)))


@pytest.mark.spark
def test_files_on_any_system_are_read_or_counted_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Braces are a pattern that only Hadoop lists, as it lists S3 and HDFS."""
    _write(tmp_path, ("in/day=1/a.csv", "in/day=1/_old/b.csv", "in/day=1/b c%.csv", *(f"in/{each}" for each in MARKS)))
    for path in (f"{tmp_path}/in", f"{tmp_path}/{{in,out}}", f"file://{tmp_path}/{{in,out}}"):
        source = checked(InputSource(path, None, "csv"))
        assert hidden_files(source, spark) == [f"{tmp_path}/in/day=1/_old/b.csv"]
        assert open_source(source, spark).count() == 2
    left_out_by_the_pattern = checked(InputSource(f"{tmp_path}/in/day=1/[!_.]*", None, "csv"))
    _write(tmp_path, ("in/day=1/_c.csv",))
    assert hidden_files(left_out_by_the_pattern, spark) == []
    assert open_source(left_out_by_the_pattern, spark).count() == 2
    for hidden, message in (
        ("in/day=1/_c.csv", r"found day=1/_c.csv at .*/in: rename it"),
        ("out/.d.csv", r"found .d.csv at .*/out"),
        ("out/deep/e.csv", r"no files in sub-folders, found .*/out/deep/e.csv"),
    ):
        _write(tmp_path, (hidden,))
        with pytest.raises(InvalidInput, match=message):
            hidden_files(InputSource(f"{tmp_path}/{{in,out}}", None, "csv"), spark)
        (tmp_path / hidden).unlink()


@pytest.mark.spark
def test_a_folder_is_listed_in_as_many_calls_however_many_files_it_has(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []
    send = GatewayClient.send_command

    def counted(client: GatewayClient, command: str, *args: object, **named: object) -> object:
        if not command.startswith("m\n"):  # Python's garbage collector sends these, whenever it runs
            commands.append(command)
        return send(client, command, *args, **named)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    calls, found = [], []
    for files in (1, 40):
        _write(tmp_path, [f"in/day=1/{number} [%]\n.csv" for number in range(files)])
        commands.clear()
        found.append(dict(listed_files(spark, f"{tmp_path}/{{in,out}}")))
        calls.append(len(commands))
    assert calls[0] == calls[1]
    ((root, below),) = found[1].items()
    assert root.endswith(f"{tmp_path}/in")
    assert sorted(below or ()) == sorted(("day=1", f"{number} [%]\n.csv") for number in range(40))
    commands.clear()
    matches = list(listed_files(spark, f"{tmp_path}/in/day=1/*"))
    assert (len(matches), {below for _, below in matches}) == (40, {None})
    assert len(commands) <= calls[0]
    assert list(listed_files(spark, f"{tmp_path}/none")) == list(listed_files(spark, f"{tmp_path}/none*")) == []


@pytest.mark.parametrize("below", ["day=1/b.csv", "day=1/hour=2/b.csv", "_old/b.csv", ".ready/b.csv"])
def test_folders_that_spark_goes_into_or_never_looks_at_are_no_hindrance(tmp_path: Path, below: str) -> None:
    for each in (below.replace("b.csv", "a.csv") if "=" in below else "a.csv", below):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    assert checked(InputSource(str(tmp_path))).format == "csv"
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.csv").touch()
    assert checked(InputSource(str(tmp_path), options={"recursivefilelookup": "true"})).format == "csv"


@pytest.mark.spark
@pytest.mark.sparks("produce")
def test_options_say_how_csv_is_read_and_which_types_it_has(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('n;who;day;note\n1;NA;;"say ""a\nb"""\n2;;2013-01-01;\n')
    options = {"sep": ";", "nullValue": "NA", "inferSchema": "true"}
    frame = visible(open_source(checked(InputSource(str(path), options=options)), spark))
    assert [kind for _, kind in frame.dtypes] == ["int", "string", "date", "string"]
    assert [tuple(each) for each in frame.collect()] == [
        (1, None, None, 'say "a\nb"'),
        (2, "", date(2013, 1, 1), ""),
    ]


@pytest.mark.spark
def test_odd_files_have_the_rows_they_have_and_odd_headers_are_warned_of(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, body, options, columns, rows in (
        ("header.csv", "a,b", {}, ["a", "b"], []),
        ("one.csv", "a b\n\n x \n", {}, ["a b"], [(" x ",)]),
        ("pandas.csv", ",a\r\n0,x\r\n", {}, ["_c0", "a"], [("0", "x")]),
        ("german.csv", "a;b\n1;2\n", {}, ["a;b"], [("1;2",)]),
        ("commas.csv", "a,b\n", {"sep": ";"}, ["a,b"], []),
        ("empty.json", "", {}, [], []),
    ):
        (tmp_path / name).write_text(body, newline="")
        frame = visible(open_source(checked(InputSource(str(tmp_path / name), options=options)), spark))
        assert (frame.columns, [tuple(each) for each in frame.collect()]) == (columns, rows)
    assert [each.getMessage().rpartition("/")[2] for each in caplog.records if each.name == "sparklog"] == [
        "pandas.csv: columns without a name in the header are called _c0",
        "german.csv: one column, 'a;b': if ';' separates columns, give --option sep",
        "commas.csv: one column, 'a,b': if ',' separates columns, give --option sep",
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (InputSource(table="no_such"), NotFound, "RESOURCE_NOT_FOUND: table no_such: TABLE_OR_VIEW_NOT_FOUND"),
        (InputSource("{}/a.csv", format="parquet"), InvalidInput, "a.csv"),
        (InputSource("{}/a.csv", where="m > 1"), InvalidOption, "--where: no column 'm'"),
        (InputSource("{}/a.csv", where="n"), InvalidOption, "wanted a condition, found 'n' of type string"),
        (InputSource("{}/a.csv", where="n >"), InvalidOption, "--where: 'n >' can't be used: PARSE_SYNTAX_ERROR"),
        (InputSource("{}/a.csv", order_by=("N", "wo")), InvalidOption, "found 'wo'; did you mean who?"),
    ],
)
def test_what_only_spark_can_find_wrong_is_told_in_one_line(
    spark: SparkSession, tmp_path: Path, source: InputSource, kind: type[SparklogError], message: str
) -> None:
    (tmp_path / "a.csv").write_text("n,who\n1,anna\n")
    path = None if source.path is None else source.path.format(tmp_path)
    given = checked(InputSource(path, source.table, source.format, {}, source.where, source.order_by))
    with pytest.raises(kind) as raised:
        open_source(given, spark)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
