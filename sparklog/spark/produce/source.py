"""What `jobs/produce.py` reads: a file, a directory or a table as a DataFrame.

CSV and JSON are read row by row in Python (`text_files`), Parquet and tables by Spark.
"""

from __future__ import annotations

import glob
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

import msgspec

from sparklog.core.errors import InvalidInput, InvalidOption, NotFound
from sparklog.spark.produce.bad_rows import BAD, BadRow, has_bad_rows, is_bad
from sparklog.spark.produce.csv_rows import CsvRows, Row, check_header, column_names
from sparklog.spark.produce.json_rows import json_rows
from sparklog.spark.produce.options import CsvOptions, JsonOptions, csv_options, json_options
from sparklog.spark.produce.rows import check_no_star, visible
from sparklog.spark.produce.text_files import (
    FILE,
    LINE,
    RAW,
    START,
    UNSPLIT,
    Part,
    check_columns,
    check_first_line,
    folders_of,
    lines_of,
    rows_of,
    settings,
)
from sparklog.spark.row_expressions import columns_named, condition, quoted
from sparklog.spark.spark_errors import condition_of, explained, shown_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS: Final = ("csv", "json", "parquet")
_FORMAT_OF_SUFFIX: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_PACKED: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")  # text of any of these may be meant
_ARCHIVES: Final = (".zip", ".tar", ".tgz", ".7z", ".rar")
# Columns that only some files have are not lost: it costs a look at the end of every file.
_PARQUET_DEFAULTS: Final = {"mergeSchema": "true"}
# Whatever the session says: a wrong time is an error and no null, a damaged file is one too, times without a zone are
# UTC, and the values of folders are text, as they stand in the path. Old dates, bytes and times without a zone are
# read from Parquet as pyarrow reads them, and by the readers that say in which file a row is.
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
# What Spark can't read in JSON is an error, no null. A field of the name that is said last is never read.
_FAIL: Final = {"mode": "FAILFAST", "columnNameOfCorruptRecord": BAD}
_DATED: Final = r"^\s*[+-]?[0-9]{4,}-"  # a time of day alone would be one of today
_GLOB: Final = re.compile(r"[*?\[{]")
_HEADER_LINES: Final = 1_000  # at most, if names in quotes go over several

log = logging.getLogger("sparklog")


class Source(msgspec.Struct, frozen=True):
    """Rows to produce: of `path` (a file, a directory, a glob) or of `table`, exactly one of them.

    `format` None: guessed by suffix. `options`: see `produce.options`; those of Parquet go to Spark as they are.
    `where` is SQL over the rows, `order_by` names columns by which they are sorted, so that offsets follow them.
    """

    path: str | None = None
    table: str | None = None
    format: str | None = None
    options: Mapping[str, str] = {}
    where: str | None = None
    order_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people."""
        return self.path if self.path is not None else f"table {self.table}"

    @property
    def is_text(self) -> bool:
        """Whether rows are read one by one, so that some may be bad."""
        return self.format in ("csv", "json")


def checked(source: Source) -> Source:
    """The source with its format. Raises InvalidOption, InvalidInput, NotFound before any Spark is started."""
    if (source.path is None) == (source.table is None):
        found = "neither" if source.path is None else "both"
        raise InvalidOption(f"wanted a SOURCE (a file or a directory) or --table NAME, found {found}")
    if "" in (source.path, source.table):
        raise InvalidOption("wanted a SOURCE (a file or a directory) or --table NAME, found an empty one")
    if source.path is None:
        if source.format is not None:
            raise InvalidOption(f"--format {source.format}: a table has its own format, give it for files only")
        return source
    local = _local(source.path)
    if local is not None and not local.exists():
        raise NotFound(f"wanted a file or a directory, found nothing at {local}")
    _check_visible(source.path, local)
    if not _reads_all_below(source.options):
        folders = [local] if local is not None else [Path(each) for each in glob.glob(_plain(source.path))]
        for folder in folders:
            if folder.is_dir():
                _check_depth(folder)
    guessed = msgspec.structs.replace(source, format=source.format or _guessed(source.path, local))
    if guessed.format == "csv":
        csv_options(guessed.options)
    elif guessed.format == "json":
        json_options(guessed.options)
    return guessed


def reading(source: Source, session: SparkSession) -> AbstractContextManager[None]:
    """What holds from `open_source` until the rows were read: settings of the session."""
    if source.format == "csv":
        multiline = csv_options(source.options).dialect.multiline
    else:
        multiline = source.format == "json" and json_options(source.options).multiline
    return settings(session, _PINNED | UNSPLIT if multiline else _PINNED)


def open_source(source: Source, session: SparkSession, *, stop_at_bad: bool = True) -> DataFrame:
    """The rows of a checked source, within `reading`; those of text have BAD (always null with `stop_at_bad`) beside
    their columns, and those of JSON have RAW. Raises InvalidInput, NotFound and their kin for what can't be read.
    """
    try:
        if source.table is not None:
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
    if source.where is not None:
        wanted = condition(visible(frame), "--where", source.where)
        check_no_star(frame, "--where", source.where)
        try:
            frame = frame.where(is_bad() | wanted if has_bad_rows(frame) else wanted)
        except Exception as error:
            raise explained(error, f"{source.name}, --where {source.where}") from error
    if source.order_by:
        frame = frame.orderBy(*map(quoted, columns_named(visible(frame), "--order-by", source.order_by)))
    return frame


def _parquet(path: str, options: Mapping[str, str], session: SparkSession) -> DataFrame:
    """Raises InvalidInput if a folder NAME=VALUE would take the place of a column of the files."""
    frame = session.read.options(**options).parquet(path)
    both = frame._jdf.queryExecution().analyzed().relation().overlappedPartCols().keySet().toList()
    if not both.isEmpty():
        name = both.head()
        raise InvalidInput(
            f"{path}: {name} is a column of the files and the name of folders ({name}=…), which would replace it: give "
            "--option recursiveFileLookup=true to take the column, or rename one"
        )
    check_columns(frame.columns, path)
    return frame


# ---- CSV --------------------------------------------------------------------------------------------


def _csv(path: str, options: CsvOptions, session: SparkSession, stop_at_bad: bool) -> DataFrame:
    dialect = options.dialect
    lines = lines_of(session, path, options.of_files)
    file, first = _first_row(lines, options, path)
    names = column_names(first, file, dialect.header, folders_of(lines))
    check_columns(names, file)
    if len(first) == 1 and (
        other := next((each for each in ",;\t|" if each != dialect.sep and each in first[0]), None)
    ):
        log.warning("%s: one column, %r: if %r separates columns, give --option sep", file, first[0], other)
    unnamed = [name for name, found in zip(names, first, strict=True) if dialect.header and name != found]
    if unnamed:
        log.warning("%s: columns without a name in the header are called %s", file, ", ".join(unnamed))

    def read(part: Part, lines: Iterator[bytes]) -> Iterator[Row | BadRow]:
        rows = CsvRows(lines, dialect)
        if dialect.header and part.start == 0:
            found = rows.next_row()
            if found is None:
                return
            check_header(found, first, part.name, file)
        yield from rows.of_width(len(first))

    frame = rows_of(lines, read, names, stop_at_bad=stop_at_bad)
    if options.null_value is not None or options.infer_schema:
        frame = _with_types(frame, names, options)
    return frame


def _first_row(lines: DataFrame, options: CsvOptions, path: str) -> tuple[str, Row]:
    """A file, and its first row: the header, or the one that says how many columns there are."""
    row: Row | BadRow | None = None
    file = path
    for count in (1, _HEADER_LINES):
        head = lines.where(f"{START} = 0").select(FILE, LINE).take(count)
        if not head:
            raise InvalidInput(f"{path} is empty: wanted at least a header line (or give --option header=false)")
        file = shown_path(head[0][FILE])
        check_first_line(file, bytes(head[0][LINE]))
        row = CsvRows((bytes(each[LINE]) for each in head if each[FILE] == head[0][FILE]), options.dialect).next_row()
        if isinstance(row, list):
            return file, row
    found = row.reason if isinstance(row, BadRow) else "blank lines only"
    raise InvalidInput(f"{file}: wanted a first row with the columns, found {found}")


def _with_types(frame: DataFrame, names: tuple[str, ...], options: CsvOptions) -> DataFrame:
    """With nulls instead of `null_value`, and if asked for with the types that Spark finds in the texts."""
    from pyspark.sql import functions as sql

    def value(name: str) -> Column:
        column = quoted(name)
        return column if options.null_value is None else sql.nullif(column, sql.lit(options.null_value))

    columns = {name: value(name) for name in names}
    if options.infer_schema:
        for name, kind in _types_of(frame.where(~is_bad()), columns).items():
            columns[name] = sql.nullif(columns[name], sql.lit("")).cast(kind)
    rest = [quoted(each) for each in frame.columns if each not in columns]
    return frame.select(*(each.alias(name) for name, each in columns.items()), *rest)


def _types_of(rows: DataFrame, columns: Mapping[str, Column]) -> dict[str, str]:
    """The types that Spark finds in columns of text, of those that are not all text; an empty text has none."""
    from pyspark.sql import functions as sql

    written = {"quote": '"', "escape": '"', "nullValue": "", "emptyValue": ""}
    texts = rows.select(sql.to_csv(sql.struct(*(each.alias(name) for name, each in columns.items())), written))
    texts.persist()  # Spark looks at the first one, then at all of them
    inferred = rows.sparkSession.read.options(**written, inferSchema="true").csv(texts).dtypes
    texts.unpersist()
    found = {name: kind for name, (_, kind) in zip(columns, inferred, strict=False) if kind != "string"}
    times = [name for name, kind in found.items() if kind.startswith("timestamp")]
    if times:
        is_undated = [(columns[each] != "") & ~columns[each].rlike(_DATED) for each in times]
        undated = rows.agg(*(sql.coalesce(sql.bool_or(each), sql.lit(False)) for each in is_undated)).collect()[0]
        for name in [name for name, without_date in zip(times, undated, strict=True) if without_date]:
            del found[name]
    return found


# ---- JSON -------------------------------------------------------------------------------------------


def _json(path: str, options: JsonOptions, session: SparkSession, stop_at_bad: bool) -> DataFrame:
    """The columns that Spark finds in the objects, for conditions and expressions, and in RAW the objects."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    def read(part: Part, lines: Iterator[bytes]) -> Iterator[Row | BadRow]:
        folders = {name: value.as_py() for name, value in part.folders.items()}  # text, or null
        return json_rows(lines, encoding=options.encoding, multiline=options.multiline, folders=folders)

    lines = lines_of(session, path, options.of_files)
    frame = rows_of(lines, read, (RAW,), stop_at_bad=stop_at_bad).select(RAW, BAD)
    types = {**options.of_types, **_FAIL}
    try:
        with settings(session, {"spark.sql.caseSensitive": "true"}):  # else it finds but one of the fields id and ID
            fields = session.read.options(**types).json(frame.where(~is_bad()).select(RAW)).schema.fields
    except Exception as error:
        if not condition_of(error).startswith("MALFORMED_RECORD"):
            raise
        raise InvalidInput(
            f"{path}: Spark can't read one of the objects: a number may have at most 1,000 digits"
        ) from error
    if not fields:
        return frame
    check_columns([each.name for each in fields], path)
    schema = StructType(list({each.name: each for each in fields}.values()))  # an object may name a field twice
    parsed = sql.from_json(RAW, schema, types).alias("parsed")
    return frame.select(parsed, RAW, BAD).select("parsed.*", RAW, BAD)


# ---- names ------------------------------------------------------------------------------------------


def _local(path: str) -> Path | None:
    """The path on this machine, or None if it is elsewhere or a pattern."""
    if _GLOB.search(path):
        return None
    parsed = urlparse(path)
    if parsed.scheme == "":
        return Path(path)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else None


def _guessed(path: str, local: Path | None) -> str:
    names = _data_files(local) if local is not None and local.is_dir() else [path]
    found = {_format_of(each) for each in names}
    known = [each for each in found if each is not None]
    if len(found) == 1 and known:
        return known[0]
    if not names:
        raise InvalidInput(f"wanted {', '.join(FORMATS)} files in the directory {path}, found no file")
    if all(each.lower().endswith(_ARCHIVES) for each in names):
        raise InvalidInput(f"{path} is an archive, which Spark does not read: unpack it first")
    if len(known) > 1:
        one, *others = sorted(known)
        raise InvalidOption(
            f"wanted files of one format, found {one} and {' and '.join(others)} in {path}: name the files by a glob "
            f"(`--format {one}` would read the {others[0].upper()} files as {one.upper()})"
        )
    if known:
        raise InvalidOption(
            f"wanted files of one format, found {known[0]} and files whose suffix does not tell in {path}: name the "
            f"files by a glob, or give --format {known[0]} to read them all so"
        )
    raise InvalidOption(
        f"wanted one of the formats {', '.join(FORMATS)}, found no suffix that tells at {path}: give --format"
    )


def _data_files(folder: Path) -> list[str]:
    """The files that Spark would read: those whose names begin with _ or . are none, here and on the way."""
    found = (each for each in folder.rglob("*") if each.is_file())
    return [each.name for each in found if not any(part[0] in "._" for part in each.relative_to(folder).parts)]


def _plain(path: str) -> str:
    """A pattern as Python's glob knows it; elsewhere than on this machine it finds nothing."""
    return path.removeprefix("file://") if urlparse(path).scheme in ("", "file") else ""


def _check_visible(path: str, local: Path | None) -> None:
    """Refuse a path that Spark would take for something else: a pattern, or a hidden file."""
    if local is None and _plain(path) and Path(_plain(path)).exists():
        raise InvalidInput(
            f"{path} is there, but *, ?, [ and {{ make a pattern of a path: rename it, or name its directory"
        )
    names = [local.name] if local is not None and local.is_file() else []
    names += [Path(each).name for each in glob.glob(_plain(path), include_hidden=True)] if local is None else []
    if hidden := [name for name in names if name[0] in "._"]:
        raise InvalidInput(
            f"Spark takes files whose names begin with _ or . for hidden and reads none of them, found {hidden[0]} "
            f"at {path}: rename it"
        )


def _reads_all_below(options: Mapping[str, str]) -> bool:
    return any(name.lower() == "recursivefilelookup" and value.lower() == "true" for name, value in options.items())


def _check_depth(folder: Path) -> None:
    """Refuse a directory of which Spark would read a part only: it goes into `name=value` folders, and no others.

    Nor does it read the files beside such folders; and a folder `value=…` would take the place of the lines.
    """
    files = [each for each in folder.rglob("*") if each.is_file()]
    below = [each.relative_to(folder).parts for each in files]
    visible = [parts for parts in below if not any(part[0] in "._" for part in parts)]
    for parts in visible:
        if any("=" not in part for part in parts[:-1]):
            raise InvalidInput(
                f"Spark reads no files in sub-folders, found {folder.joinpath(*parts)}: give --option "
                "recursiveFileLookup=true, or a glob"
            )
        if any(part.lower().startswith("value=") for part in parts[:-1]):
            raise InvalidInput(f"a folder value=… can't be a column, found {folder.joinpath(*parts)}: rename it")
    depths = {len(parts) for parts in visible}
    if len(depths) > 1:
        beside = min(visible, key=len)
        raise InvalidInput(
            f"Spark reads no files beside name=value folders, found {folder.joinpath(*beside)}: give --option "
            "recursiveFileLookup=true (without the folders' columns), or produce it by itself"
        )


def _format_of(name: str) -> str | None:
    lower = name.lower().rstrip("/")
    packed = next((each for each in _PACKED if lower.endswith(each)), "")
    return next((kind for suffix, kind in _FORMAT_OF_SUFFIX.items() if lower.endswith(suffix + packed)), None)
