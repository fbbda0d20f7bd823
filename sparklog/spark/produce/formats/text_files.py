"""Text files as a DataFrame of their rows: Spark finds, opens and unpacks the files, and Python reads rows in tasks.

    lines_of: one row per line (file, start, line, folders) -> rows_of: one row per row of the file, with column BAD

Rows must arrive exactly as in the file. Spark's own CSV reader guesses line ends and accepts surplus columns, misplaced
quotes, broken UTF-8 and differing headers; its JSON reader sorts fields and fills in nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from sparklog.core.errors import InvalidInput
from sparklog.spark.produce.formats.bad_rows import BAD, BAD_TYPE, BadRow, refusal
from sparklog.spark.spark_errors import shown_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE, START, LINE = "sparklog_file", "sparklog_start", "sparklog_line"
RAW: Final = "sparklog_json"  # a column added to those of JSON: the object exactly as the file has it
# The object as Spark can read it, and the names of the fields that are null there because Spark can't.
READABLE, UNREADABLE = "sparklog_readable", "sparklog_unreadable"
_RESERVED: Final = (FILE, START, LINE, RAW, READABLE, UNREADABLE, BAD)
ROWS_AT_ONCE: Final = 10_000
BYTES_AT_ONCE: Final = 16 << 20
# Larger than any file, but small enough for Spark to add it up over a million files.
_LARGER_THAN_FILES: Final = 1 << 42
UNSPLIT: Final = {  # a row may span many lines
    "spark.sql.files.maxPartitionBytes": str(1 << 62),
    "spark.sql.files.openCostInBytes": str(_LARGER_THAN_FILES),
}
# Spark does not notice if the second frame of a .zst is cut off. For .lz4 and .snappy it reads only Hadoop's formats,
# not those of other programs.
_NOT_UNPACKED: Final = {".zst": "unzstd", ".lz4": "unlz4", ".snappy": "snzip -d"}
_OTHER_CONTENT: Final = {
    b"PAR1\x15": "Parquet: give --format parquet",
    b"\x1f\x8b": "gzip: Spark unpacks files whose names end in .gz",
    **{f"BZh{level}1AY&SY".encode(): "bzip2: Spark unpacks files whose names end in .bz2" for level in range(1, 10)},
    b"\x28\xb5\x2f\xfd": "zstd: unpack it first, as by unzstd",
    b"PK\x03\x04": "a zip archive (as .xlsx is one): unpack or export it first",
    b"\xff\xfe": "UTF-16: convert it first, as by iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16: convert it first, as by iconv -f UTF-16 -t UTF-8",
}
_BAD_ARROW: Final = pa.struct({"file": pa.string(), "row": pa.int64(), "reason": pa.string(), "text": pa.binary()})


class FilePart(NamedTuple):
    """A file, or the part of it that begins at byte `start`. `folders`: NAME to VALUE of the folders NAME=VALUE."""

    file: str
    start: int
    folders: Mapping[str, pa.Scalar[Any]]

    @property
    def name(self) -> str:
        """The file's name for messages."""
        return shown_path(self.file)

    def place(self, line: int) -> str:
        """The place of a row in messages: its file and line, and the byte at which its part begins if that is not 0."""
        return f"{self.name}, line {line:,}" + (f" from byte {self.start:,} on" if self.start else "")


TextRow = Sequence[str | None]
Read = Callable[[FilePart, Iterator[bytes]], Iterator["TextRow | BadRow"]]


@contextmanager
def settings(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Apply the settings `wanted` to the session in a `with` block, and restore the old ones at its end."""
    before = {name: str(session.conf.get(name)) for name in wanted}
    try:
        for name, value in wanted.items():
            session.conf.set(name, value)
        yield
    except KeyboardInterrupt:
        before.clear()  # the interrupt broke the connection to Spark, so nothing can be restored
        raise
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


def lines_of(session: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """Return the lines of text files, split only at \\n. Each line is a row.

    A row has the file, the byte at which the line's part of the file begins (Spark may read a file in several parts),
    the line as bytes, and the values of the folders named NAME=VALUE.

    Raises InvalidInput for a compressed file that Spark can't read safely (.zst, .lz4, .snappy), and for a folder with
    a column name that is reserved for sparklog.
    """
    from pyspark.sql import functions as sql

    lines = session.read.options(**options).option("lineSep", "\n").text(path)
    for name in lines.inputFiles():
        if program := next((unpack for suffix, unpack in _NOT_UNPACKED.items() if name.lower().endswith(suffix)), None):
            raise InvalidInput(
                f"{shown_path(name)} can't be read safely: unpack it, as by {program}, or pack it as .gz or .bz2"
            )
    check_columns(lines.columns, path)
    return lines.select(
        sql.col("_metadata.file_path").alias(FILE),
        sql.col("_metadata.file_block_start").alias(START),
        sql.col("value").cast("binary").alias(LINE),
        *(sql.col(f"`{name}`") for name in lines.columns if name != "value"),
    )


def check_columns(names: Iterable[str], place: str) -> None:
    """Raise InvalidInput if one of `names` is the name of a column that sparklog adds.

    `place`: the name of the source or file, for the message.
    """
    if ours := [name for name in names if name.lower() in _RESERVED]:
        raise InvalidInput(f"{place}: the column name {ours[0]} is reserved for sparklog: rename the column")


def folders_of(lines: DataFrame) -> list[str]:
    """The columns that come from folders named NAME=VALUE."""
    return lines.columns[3:]


def rows_of(lines: DataFrame, read: Read, columns: Sequence[str], *, stop_at_bad: bool) -> DataFrame:
    """Return the rows that `read` yields for each part: the text columns `columns`, the folder columns, and BAD.

    BAD describes an unreadable row, and is null for others. With `stop_at_bad`, an unreadable row fails the task
    instead.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    from sparklog.spark.spark_versions import type_of

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return read_parts(batches, read, columns, stop_at_bad=stop_at_bad)

    fields = [StructField(name, StringType()) for name in columns]
    fields += [lines.schema[name] for name in folders_of(lines)]
    fields.append(StructField(BAD, type_of(BAD_TYPE)))
    return lines.mapInArrow(run, StructType(fields))


def checked_text(part: FilePart, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Return `lines` unchanged. Raises InvalidInput if the file begins like a file that is not text, such as gzip."""
    first = next(lines, None)
    if first is None:
        return iter(())
    if part.start == 0:
        check_first_line(part.name, first)
    return chain((first,), lines)


def check_first_line(name: str, line: bytes) -> None:
    """Raise InvalidInput if `line`, the first of the file `name`, begins like a file that is not text."""
    for magic, what in _OTHER_CONTENT.items():
        if line.startswith(magic):
            raise InvalidInput(f"{name} is not text, it begins like {what}")
    if b"\0" in line:
        raise InvalidInput(f"{name} is not UTF-8 text, its first line has zero bytes: convert it first, as by iconv")


def read_parts(
    batches: Iterable[pa.RecordBatch], read: Read, columns: Sequence[str], *, stop_at_bad: bool
) -> Iterator[pa.RecordBatch]:
    """The Spark task: turn batches of rows of `lines_of` into batches of rows of `rows_of`.

    With `stop_at_bad`, raise InvalidRecord at a bad row.
    """
    for part, runs in groupby(_runs(batches), key=itemgetter(0)):
        lines = chain.from_iterable(lines for _, lines in runs)
        for rows in _gathered(read(part, checked_text(part, lines))):
            if stop_at_bad:
                for row in rows:
                    if isinstance(row, BadRow):
                        raise refusal(part.place(row.line), row)
            yield _batch(part, rows, columns)


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[FilePart, list[bytes]]]:
    """Group the lines of batches by their part of a file. Yield (part, lines); a part may come several times."""
    for batch in batches:
        if not batch.num_rows:
            continue
        files, starts = batch.column(0).dictionary_encode().indices.to_numpy(), batch.column(1).to_numpy()
        borders = np.flatnonzero((files[1:] != files[:-1]) | (starts[1:] != starts[:-1])) + 1
        edges = [0, *borders.tolist(), batch.num_rows]
        for begin, end in pairwise(edges):
            folders = {batch.schema.names[at]: batch.column(at)[begin] for at in range(3, batch.num_columns)}
            part = FilePart(batch.column(0)[begin].as_py(), int(starts[begin]), folders)
            yield part, batch.column(2).slice(begin, end - begin).to_pylist()


def _gathered(rows: Iterable[TextRow | BadRow]) -> Iterator[list[TextRow | BadRow]]:
    gathered: list[TextRow | BadRow] = []
    size = 0
    for row in rows:
        gathered.append(row)
        size += len(row.text) if isinstance(row, BadRow) else sum(len(text) for text in row if text)
        if len(gathered) == ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


def _batch(part: FilePart, rows: Sequence[TextRow | BadRow], columns: Sequence[str]) -> pa.RecordBatch:
    nothing = [None] * len(columns)
    columns_of_text = zip(*(nothing if isinstance(row, BadRow) else row for row in rows), strict=True)
    bad = [
        {"file": part.name, "row": row.line, "reason": row.reason, "text": row.text}
        if isinstance(row, BadRow)
        else None
        for row in rows
    ]
    arrays = [pa.array(texts, pa.string()) for texts in columns_of_text]
    arrays += [pa.repeat(value, len(rows)) for value in part.folders.values()]
    arrays.append(pa.array(bad, _BAD_ARROW))
    return pa.RecordBatch.from_arrays(arrays, names=[*columns, *part.folders, BAD])
