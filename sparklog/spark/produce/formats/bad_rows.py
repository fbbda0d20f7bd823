"""Rows of text files that can't be read: how they are described, reported, left out or sent to another topic."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from sparklog.core.errors import InvalidOption, InvalidRecord

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BAD: Final = "sparklog_bad_row"  # a column added to those of a source: null in a good row
BAD_TYPE: Final = "struct<file: string, row: bigint, reason: string, text: binary>"
CHARACTERS_SHOWN: Final = 120


class OnBadRow(StrEnum):
    """The treatment of an unreadable row: stop the job, leave the row out, or write it to another topic."""

    FAIL = "fail"  # nothing is written
    SKIP = "skip"  # the row is counted and left out
    DEAD_LETTER = "dead-letter"  # its text goes to another topic, in the same commit as the good rows


class BadRows(NamedTuple):
    """The options --on-bad-row (`then`) and --dead-letter-topic (`topic`)."""

    then: OnBadRow = OnBadRow.FAIL
    topic: str | None = None

    def check(self, written_to: str) -> None:
        """Raise InvalidOption unless OnBadRow.DEAD_LETTER and a topic are given together or not at all.

        Also raises it if that topic is `written_to`, the topic of the good rows.
        """
        if (self.topic is not None) != (self.then is OnBadRow.DEAD_LETTER):
            raise InvalidOption(
                "wanted --on-bad-row dead-letter and --dead-letter-topic together, found only one of them"
            )
        if self.topic == written_to:
            raise InvalidOption(f"--dead-letter-topic: wanted another topic than --topic, found {written_to}")


class BadRow(NamedTuple):
    """An unreadable row. `text`: its bytes without the last line end.

    `line`: its first line, counted from 1 at the start of the part of the file that the task reads. For an object in
    the array of one JSON document, it is instead the number of the object, from 1.
    """

    line: int
    reason: str
    text: bytes


def not_decoded(error: UnicodeDecodeError, encoding: str) -> str:
    """The reason why a row with bytes that are not in the encoding of the file is bad."""
    return f"byte 0x{error.object[error.start]:02x} is not {encoding}: give the encoding by --option encoding=NAME"


def refusal(place: str, bad: BadRow) -> InvalidRecord:
    """The error for a bad row that stops the job. `place`: the row's file and line."""
    return InvalidRecord(
        f"{place}: {bad.reason}; found {shown(bad.text)}. Nothing was written: fix the row, or run with "
        "--on-bad-row skip (count such rows and leave them out) or --on-bad-row dead-letter (keep them in a topic)"
    )


def shown(text: bytes) -> str:
    """Return the text of a row for a message: quoted, on one line, and cut after CHARACTERS_SHOWN characters."""
    start = repr(text[: 4 * CHARACTERS_SHOWN].decode(errors="backslashreplace"))
    return start if len(start) <= CHARACTERS_SHOWN else start[:CHARACTERS_SHOWN] + "…"


def has_bad_rows(frame: DataFrame) -> bool:
    """True if the frame has the column that marks bad rows."""
    return BAD in frame.columns


def is_bad() -> Column:
    """Return a column that is true for a bad row."""
    from pyspark.sql import functions as sql

    return sql.col(BAD).isNotNull()


def with_dead_letters(columns: Mapping[str, Column], topic: str, dead_letter_topic: str) -> dict[str, Column]:
    """Return columns with which one write puts good rows into `topic` and bad rows into `dead_letter_topic`.

    `columns` are those of good rows. Bad rows get their text as value, and headers with the file, the row and the
    reason.
    """
    from pyspark.sql import functions as sql

    bad = sql.col(BAD)
    headers = sql.array(
        *(
            sql.struct(sql.lit(name).alias("key"), bad[name].cast("string").cast("binary").alias("value"))
            for name in ("file", "row", "reason")
        )
    )
    good = {name: sql.when(~is_bad(), column) for name, column in columns.items() if name != "value"}
    return {
        **good,
        "topic": sql.when(is_bad(), dead_letter_topic).otherwise(topic),
        "value": sql.when(is_bad(), bad["text"]).otherwise(columns["value"].cast("binary")),
        "headers": sql.when(is_bad(), headers),
    }
