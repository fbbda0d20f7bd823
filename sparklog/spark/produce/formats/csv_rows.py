"""Reads CSV with Python's csv module: RFC 4180, values over several lines, and every malformed row reported.

No Spark is used here: lines of bytes go in, rows or BadRows come out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from sparklog.core.describe.readable import amount
from sparklog.core.errors import InvalidInput
from sparklog.spark.produce.formats.bad_rows import BadRow, not_decoded

LONGEST_ROW_BYTES: Final = 64 << 20  # a longer quoted value is treated as never closed
Row = list[str]


class CsvDialect(msgspec.Struct, frozen=True):
    """The dialect of a CSV file. `multiline`: quoted values may contain line ends."""

    sep: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""
    encoding: str = "utf-8"
    header: bool = True
    multiline: bool = True
    skip_initial_space: bool = False


class _NotClosed(Exception):
    """A quoted value is never closed."""


class _Lines:
    """Feeds lines to csv.reader, and keeps the lines of the current row."""

    def __init__(self, lines: Iterable[bytes], dialect: CsvDialect) -> None:
        self._lines = iter(lines)
        self._given_back: list[bytes] = []
        self._dialect = dialect
        self._comment = dialect.comment.encode(dialect.encoding) or None
        self._row_bytes = 0
        self.row: list[bytes] = []
        self.undecoded: UnicodeDecodeError | None = None  # the row's first byte that does not fit the encoding
        self.number = 0  # number of the last line read

    def begin_row(self) -> None:
        self.row = []
        self.undecoded = None
        self._row_bytes = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if self.row and (not self._dialect.multiline or self._row_bytes > LONGEST_ROW_BYTES):
            raise _NotClosed
        line = self._next()
        while self._comment is not None and not self.row and line.startswith(self._comment):
            line = self._next()
        self.row.append(line)
        self._row_bytes += len(line)
        try:
            return line.decode(self._dialect.encoding) + "\n"
        except UnicodeDecodeError as error:
            self.undecoded = self.undecoded or error
            return line.decode(self._dialect.encoding, "surrogateescape") + "\n"  # its quotes still count

    def _next(self) -> bytes:
        try:
            line = self._given_back.pop() if self._given_back else next(self._lines)
        except StopIteration:
            if self.row:
                raise _NotClosed from None
            raise
        self.number += 1
        return line

    def give_back(self) -> None:
        """Put back all lines of the current row except its first, so that they are read again, as rows of their own."""
        self._given_back += reversed(self.row[1:])
        self.number -= len(self.row) - 1
        del self.row[1:]

    def bad(self, reason: str) -> BadRow:
        return BadRow(self.number - len(self.row) + 1, reason, b"\n".join(self.row).removesuffix(b"\r"))


class CsvRows:
    """Iterates over the rows of a file, or of a part of it that begins at the start of a line."""

    def __init__(self, lines: Iterable[bytes], dialect: CsvDialect) -> None:
        self._lines = _Lines(lines, dialect)
        self._dialect = dialect
        csv.field_size_limit(2 * LONGEST_ROW_BYTES)
        self._reader = csv.reader(
            self._lines,
            delimiter=dialect.sep,
            quotechar=dialect.quote or None,
            quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
            escapechar=None if dialect.escape in ("", '"', dialect.quote) else dialect.escape,
            skipinitialspace=dialect.skip_initial_space,
            strict=True,
        )

    def __iter__(self) -> Iterator[Row | BadRow]:
        while (row := self.next_row()) is not None:
            yield row

    def next_row(self) -> Row | BadRow | None:
        """The next row, or None after the last one. Blank lines are skipped."""
        row: Row = []
        while not row:
            self._lines.begin_row()
            try:
                row = next(self._reader)
            except StopIteration:
                return None
            except _NotClosed:
                self._lines.give_back()
                where = "its end" if self._dialect.multiline else "the end of its line (multiLine=false)"
                return self._lines.bad(f"a value in quotes is not closed before {where}")
            except UnicodeDecodeError as error:
                return self._lines.bad(not_decoded(error, self._dialect.encoding))
            except csv.Error as error:
                return self._misquoted(self._reason(error))
        undecoded = self._lines.undecoded
        return row if undecoded is None else self._lines.bad(not_decoded(undecoded, self._dialect.encoding))

    def of_width(self, width: int) -> Iterator[Row | BadRow]:
        """Yield the remaining rows. A row without exactly `width` columns becomes a BadRow."""
        for row in self:
            if isinstance(row, BadRow) or len(row) == width:
                yield row
            else:
                yield self._lines.bad(f"wanted {width} columns, found {len(row)}")

    def _misquoted(self, reason: str) -> BadRow:
        """Return the BadRow for a misplaced quote. If the row spans lines, the BadRow has only the first line.

        A quote in the first line was probably not closed, so the other lines are put back, to be read as rows.
        """
        lines, last = len(self._lines.row), self._lines.number
        if lines == 1:
            return self._lines.bad(reason)
        self._lines.give_back()
        return self._lines.bad(f"a value in quotes is not closed before line {last:,}, which has a quote: {reason}")

    def _reason(self, error: csv.Error) -> str:
        if "expected after" in str(error):
            return "wanted a separator after a value in quotes (quotes inside a value are doubled), found more text"
        if "new-line" in str(error):
            return "a carriage return outside quotes"
        if "field larger" in str(error):
            return f"wanted values of at most {amount(2 * LONGEST_ROW_BYTES)}, found a larger one"
        return "wanted a row of CSV, found text that is none"


def column_names(first: Row, place: str, header: bool, taken: Sequence[str]) -> tuple[str, ...]:
    """Return the column names of a file whose first row is `first`.

    They are the texts of that row if `header`. Without a header, and for an empty text, a column gets Spark's name for
    its position, such as `_c0`. Raises InvalidInput if two columns have the same name, ignoring case. This includes
    `taken`, the names of NAME=VALUE folders, which become columns as well.
    """
    names = tuple(name if header and name.strip() else f"_c{at}" for at, name in enumerate(first))
    seen = {name.lower(): f"folder {name}=" for name in taken}
    for at, name in enumerate(names):
        here = f"{name!r} as column {at + 1}"
        before = seen.setdefault(name.lower(), here)
        if before != here:
            raise InvalidInput(
                f"{place}: wanted columns with different names (case doesn't count), found {before} and "
                f"{here}: rename one, or read with --option header=false (columns _c0, _c1, …)"
            )
    return names


def check_header(header: Row | BadRow, wanted: Row, place: str, other: str) -> None:
    """Raise InvalidInput unless `header`, that of file `place`, equals `wanted`, that of file `other`.

    With another header, values would land in the wrong columns.
    """
    if isinstance(header, BadRow):
        raise InvalidInput(f"{place}: the header can't be read: {header.reason}")
    if header != wanted:
        raise InvalidInput(
            f"{place}: wanted the header of {other}, {_names(wanted)}, found {_names(header)}: run produce separately "
            "for files with other columns"
        )


def _names(header: Row) -> str:
    text = ",".join(header)
    return text if len(text) <= 300 else text[:300] + "…"
