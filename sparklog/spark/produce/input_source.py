"""The source of `jobs/produce.py`: a file, a directory or a table as a DataFrame.

Python reads CSV and JSON row by row (`text_files`); Spark reads Parquet and tables.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import msgspec

from sparklog.core.errors import InvalidInput, InvalidOption, InvalidRecord, NotFound
from sparklog.spark.produce.delta_changes import open_changes, open_version
from sparklog.spark.produce.formats.bad_rows import BAD, CHARACTERS_SHOWN, BadRow, has_bad_rows, is_bad
from sparklog.spark.produce.formats.csv_rows import CsvRows, Row, check_header, column_names
from sparklog.spark.produce.formats.json_rows import JsonRow, json_rows
from sparklog.spark.produce.formats.parquet_times import check_int96_times
from sparklog.spark.produce.formats.text_files import (
    FILE,
    LINE,
    RAW,
    READABLE,
    START,
    UNREADABLE,
    UNSPLIT,
    FilePart,
    check_columns,
    check_first_line,
    folders_of,
    lines_of,
    rows_of,
    settings,
)
from sparklog.spark.produce.listed_files import listed_files
from sparklog.spark.produce.paths import (
    FileFilter,
    check_files,
    check_path,
    files_below,
    guessed_format,
    local_path,
)
from sparklog.spark.produce.produce_options import CsvOptions, JsonOptions, csv_options, json_options
from sparklog.spark.produce.rows import check_no_star, visible
from sparklog.spark.spark_errors import condition_of, explained, shown_path
from sparklog.spark.write.row_expressions import columns_named, condition, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

# Keep columns that only some files have. This reads the footer of every file.
_PARQUET_DEFAULTS: Final = {"mergeSchema": "true"}
# These override the session: an invalid time or a damaged file is an error (not null), times without a zone are UTC,
# and folder values are text, exactly as in the path. Old dates, bytes and times without a zone are read from Parquet
# as pyarrow reads them, with the readers that report which file a row came from.
_PINNED: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
}
# JSON that Spark cannot read is an error, not null. Spark never reads a field named like columnNameOfCorruptRecord.
_FAIL: Final = {"mode": "FAILFAST", "columnNameOfCorruptRecord": BAD}
_DATED: Final = r"^\s*[+-]?[0-9]{4,}-"  # Spark reads a time of day alone as a time today
_HEADER_LINES: Final = 1_000  # most lines of a header, whose quoted names may span several

log = logging.getLogger("sparklog")


class InputSource(msgspec.Struct, frozen=True):
    """The rows to produce, from exactly one of `path` (a file, a directory, a glob) and `table`.

    If `format` is None, the suffix determines it. `options`: see produce_options.py; those for Parquet go to Spark
    unchanged. `where`: a SQL condition that selects rows. `order_by`: columns to sort by, so that offsets follow them.
    `version`: only the changes of that version of a Delta table (`delta_changes`).
    """

    path: str | None = None
    table: str | None = None
    format: str | None = None
    options: Mapping[str, str] = {}
    where: str | None = None
    order_by: tuple[str, ...] = ()
    version: int | None = None

    @property
    def name(self) -> str:
        """The source's name for messages."""
        return self.path if self.path is not None else f"table {self.table}"

    @property
    def is_text(self) -> bool:
        """True if Python reads the rows one by one (CSV, JSON), so that a single row may be unreadable."""
        return self.format in ("csv", "json")


def checked(source: InputSource) -> InputSource:
    """Check the source without Spark, and return it with the format of its files filled in.

    Raises InvalidOption, InvalidInput or NotFound.
    """
    if (source.path is None) == (source.table is None):
        given = "neither" if source.path is None else "both"
        raise InvalidOption(f"wanted a SOURCE (a file or a directory) or --table NAME, found {given}")
    if "" in (source.path, source.table):
        raise InvalidOption("wanted a SOURCE (a file or a directory) or --table NAME, found an empty one")
    if source.path is None:
        if source.format is not None:
            raise InvalidOption(f"--format {source.format}: a table has its own format, give --format for files only")
        return source
    if source.version is not None:
        return source
    local = local_path(source.path)
    if local is not None and not local.exists():
        raise NotFound(f"wanted a file or a directory, found nothing at {local}")
    check_path(source.path, local, FileFilter.of(source.options))
    guessed = _with_format(source, source.format or guessed_format(source.path, local))
    if guessed.format == "csv":
        csv_options(guessed.options)
    elif guessed.format == "json":
        json_options(guessed.options)
    return guessed


def hidden_files(source: InputSource, session: SparkSession) -> list[str]:
    """Return the files at the source's path that lie in hidden folders, so that Spark does not read them.

    Raises InvalidInput for other files that Spark would not read, and another SparklogError if they can't be listed.
    """
    if source.path is None or source.version is not None:
        return []
    local = local_path(source.path)
    try:
        listed = listed_files(session, source.path) if local is None else [(str(local), files_below(local))]
        file_filter = FileFilter.of(source.options)
        return [file for root, below in listed for file in check_files(shown_path(root), below, file_filter)]
    except Exception as error:
        raise explained(error, source.name) from error


def _with_format(source: InputSource, format_: str) -> InputSource:
    if format_ != "tsv":
        return msgspec.structs.replace(source, format=format_)
    is_given = any(name.lower() in ("sep", "delimiter") for name in source.options)
    tabs = source.options if is_given else {**source.options, "sep": "\t"}
    return msgspec.structs.replace(source, format="csv", options=tabs)


def reading(source: InputSource, session: SparkSession) -> AbstractContextManager[None]:
    """Return a `with` context for reading a source: it applies the session settings that the read needs.

    Enter it before `open_source`, and leave it after the rows have been read.
    """
    if source.format == "csv":
        multiline = csv_options(source.options).dialect.multiline
    else:
        multiline = source.format == "json" and json_options(source.options).multiline
    return settings(session, _PINNED | UNSPLIT if multiline else _PINNED)


def open_source(source: InputSource, session: SparkSession, *, stop_at_bad: bool = True) -> DataFrame:
    """Return the rows of a source that `checked` returned. Call it within `reading`.

    Rows of text files also have the column BAD, which describes an unreadable row (always null with `stop_at_bad`).
    Rows of JSON files also have RAW, the object's text. Raises InvalidInput, NotFound or another SparklogError if the
    source cannot be read, and InvalidOption for a wrong `where` or `order_by`.
    """
    try:
        if source.version is not None:
            frame = open_changes(session, source.path, source.table, source.version)
        elif source.table is not None:
            frame = session.table(source.table)
            check_columns(frame.columns, source.name)
        elif source.format == "csv":
            frame = _csv(source.path or "", csv_options(source.options), session, stop_at_bad)
        elif source.format == "json":
            frame = _json(source.path or "", json_options(source.options), session, stop_at_bad)
        else:
            frame = _parquet(source.path or "", {**_PARQUET_DEFAULTS, **source.options}, session)
        if not frame.columns:
            raise InvalidInput(f"{source.name} has no columns")
    except Exception as error:
        raise explained(error, source.name) from error
    frame = _where(frame, source)
    if source.order_by:
        frame = frame.orderBy(*map(quoted, columns_named(visible(frame), "--order-by", source.order_by)))
    return frame


def open_table(source: InputSource, session: SparkSession, columns: StructType) -> DataFrame:
    """The rows of a Delta table as of `source.version` that `where` selects, with `columns`. Call it within `reading`.

    Raises InvalidInput or another SparklogError if that version can't be read.
    """
    assert source.version is not None
    try:
        frame = open_version(session, source.path, source.table, source.version, columns)
    except Exception as error:
        raise explained(error, source.name) from error
    return _where(frame, source)


def _where(frame: DataFrame, source: InputSource) -> DataFrame:
    if source.where is not None:
        wanted = condition(visible(frame), "--where", source.where)
        check_no_star(frame, "--where", source.where)
        frame = frame.where(is_bad() | wanted if has_bad_rows(frame) else wanted)
    return frame


def _parquet(path: str, options: Mapping[str, str], session: SparkSession) -> DataFrame:
    """The rows of Parquet files.

    Raises InvalidInput if a folder NAME=VALUE would replace a column of the files, or if Spark would cut their times.
    """
    frame = session.read.options(**options).parquet(path)
    both = frame._jdf.queryExecution().analyzed().relation().overlappedPartCols().keySet().toList()
    if not both.isEmpty():
        name = both.head()
        raise InvalidInput(
            f"{path}: {name} is a column of the files and the name of folders ({name}=…), which would replace it: give "
            "--option recursiveFileLookup=true to use the column, or rename one"
        )
    check_columns(frame.columns, path)
    check_int96_times(frame)
    return frame


# ---- CSV --------------------------------------------------------------------------------------------


def _csv(path: str, options: CsvOptions, session: SparkSession, stop_at_bad: bool) -> DataFrame:
    dialect = options.dialect
    lines = lines_of(session, path, options.of_files)
    file, first = _first_row(lines, options, path)
    names = column_names(first, file, dialect.header, folders_of(lines))
    check_columns(names, file)
    if len(first) == 1 and (other := next((sep for sep in ",;\t|" if sep != dialect.sep and sep in first[0]), None)):
        log.warning("%s: one column, %r: if %r separates columns, give --option sep", file, first[0], other)
    unnamed = [name for name, text in zip(names, first, strict=True) if dialect.header and name != text]
    if unnamed:
        log.warning("%s: columns without a name in the header are called %s", file, ", ".join(unnamed))

    def read(part: FilePart, lines: Iterator[bytes]) -> Iterator[Row | BadRow]:
        rows = CsvRows(lines, dialect)
        if dialect.header and part.start == 0:
            header = rows.next_row()
            if header is None:
                return
            check_header(header, first, part.name, file)
        yield from rows.of_width(len(first))

    frame = rows_of(lines, read, names, stop_at_bad=stop_at_bad)
    if options.null_value is not None or options.infer_schema:
        frame = _with_types(frame, names, options)
    return frame


def _first_row(lines: DataFrame, options: CsvOptions, path: str) -> tuple[str, Row]:
    """Return the name of the first file and its first row. The row is the header, or it gives the number of columns."""
    row: Row | BadRow | None = None
    file = path
    for count in (1, _HEADER_LINES):
        head = lines.where(f"{START} = 0").select(FILE, LINE).take(count)
        if not head:
            raise InvalidInput(f"{path} is empty: wanted at least a header line (or give --option header=false)")
        file = shown_path(head[0][FILE])
        check_first_line(file, bytes(head[0][LINE]))
        row = CsvRows((bytes(line[LINE]) for line in head if line[FILE] == head[0][FILE]), options.dialect).next_row()
        if isinstance(row, list):
            return file, row
    reason = row.reason if isinstance(row, BadRow) else "blank lines only"
    raise InvalidInput(f"{file}: wanted a first row with the columns, found {reason}")


def _with_types(frame: DataFrame, names: tuple[str, ...], options: CsvOptions) -> DataFrame:
    """Return the frame with null in place of `null_value` and, with `infer_schema`, the types that Spark infers."""
    from pyspark.sql import functions as sql

    def value(name: str) -> Column:
        column = quoted(name)
        return column if options.null_value is None else sql.nullif(column, sql.lit(options.null_value))

    columns = {name: value(name) for name in names}
    if options.infer_schema:
        for name, kind in _types_of(frame.where(~is_bad()), columns).items():
            columns[name] = sql.nullif(columns[name], sql.lit("")).cast(kind)
    rest = [quoted(name) for name in frame.columns if name not in columns]
    return frame.select(*(column.alias(name) for name, column in columns.items()), *rest)


def _types_of(rows: DataFrame, columns: Mapping[str, Column]) -> dict[str, str]:
    """Return the types that Spark infers for text columns, except for those that stay strings. Ignores empty texts."""
    from pyspark.sql import functions as sql

    from sparklog.spark.spark_versions import documents

    written = {"quote": '"', "escape": '"', "nullValue": "", "emptyValue": ""}
    texts = rows.select(sql.to_csv(sql.struct(*(column.alias(name) for name, column in columns.items())), written))
    texts.persist()  # Spark reads the first row, then all of them
    inferred = rows.sparkSession.read.options(**written, inferSchema="true").csv(documents(texts)).dtypes
    texts.unpersist()
    types = {name: kind for name, (_, kind) in zip(columns, inferred, strict=False) if kind != "string"}
    times = [name for name, kind in types.items() if kind.startswith("timestamp")]
    if times:
        is_undated = [(columns[name] != "") & ~columns[name].rlike(_DATED) for name in times]
        undated = rows.agg(*(sql.coalesce(sql.bool_or(test), sql.lit(False)) for test in is_undated)).collect()[0]
        for name in [name for name, without_date in zip(times, undated, strict=True) if without_date]:
            del types[name]
    return types


# ---- JSON -------------------------------------------------------------------------------------------


def _json(path: str, options: JsonOptions, session: SparkSession, stop_at_bad: bool) -> DataFrame:
    """The rows of JSON files: the columns that Spark finds in the objects, RAW with each object's text, and BAD.

    A column fails a row only if it is used, and Spark can't read the row's value as it is.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructField, StructType

    from sparklog.spark.spark_versions import documents

    def read(part: FilePart, lines: Iterator[bytes]) -> Iterator[JsonRow | BadRow]:
        folders = {name: value.as_py() for name, value in part.folders.items()}  # text, or null
        return json_rows(lines, encoding=options.encoding, multiline=options.multiline, folders=folders)

    lines = lines_of(session, path, options.of_files)
    columns_of_row = (RAW, READABLE, UNREADABLE)
    frame = rows_of(lines, read, columns_of_row, stop_at_bad=stop_at_bad).select(*columns_of_row, BAD)
    readable = sql.coalesce(READABLE, RAW)
    types = {**options.of_types, **_FAIL}
    objects = documents(frame.where(~is_bad()).select(readable))
    try:
        with settings(
            session, {"spark.sql.caseSensitive": "true"}
        ):  # otherwise Spark reads only one of the fields id and ID
            inferred = session.read.options(**types).json(objects).schema.fields
    except Exception as error:
        if not condition_of(error).startswith("MALFORMED_RECORD"):
            raise
        raise InvalidInput(f"{path}: Spark can't read one of the objects: a name of a field may be too long") from error
    fields = list({field.name: field for field in inferred}.values())  # an object may repeat a field
    if not fields:
        return frame.select(RAW, BAD)
    check_columns([field.name for field in fields], path)
    # By number, because names may differ only in case.
    numbered = StructType([StructField(f"f{at}", field.dataType) for at, field in enumerate(fields)])
    parsed = sql.from_json(readable, StructType(fields), types).cast(numbered).alias("parsed")
    columns = [
        _checked_field(sql.col(f"parsed.f{at}"), field, path).alias(field.name) for at, field in enumerate(fields)
    ]
    return frame.select(parsed, RAW, UNREADABLE, BAD).select(*columns, RAW, BAD)


def _checked_field(value: Column, field: StructField, path: str) -> Column:
    """Return the column `value` of a JSON field. It fails for a row in which Spark can't read the field as it is."""
    from pyspark.sql import functions as sql

    problem = (
        f"sparklog.core.errors.{InvalidRecord.__name__}: {InvalidRecord.code}: {path}: wanted a value that Spark can "
        f"read in field {field.name!r}, found half of a surrogate pair or a number that is too large, in "
    )
    failed = sql.raise_error(sql.concat(sql.lit(problem), sql.substring(RAW, 1, CHARACTERS_SHOWN)))
    names_it = sql.array_contains(sql.from_json(UNREADABLE, "array<string>"), field.name)
    return sql.when(sql.col(UNREADABLE).isNotNull() & names_it, failed.cast(field.dataType)).otherwise(value)
