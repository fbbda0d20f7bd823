"""Rows of a text file that can't be read: what is known of one, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from sparklog.core.errors import InvalidOption, InvalidRecord

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BAD: Final = "sparklog_bad_row"  # beside the columns of a source: null in a good row
BAD_TYPE: Final = "struct<file: string, row: bigint, reason: string, text: binary>"
CHARACTERS_SHOWN: Final = 120


class OnBadRow(StrEnum):
    """What becomes of a row that can't be read."""

    FAIL = "fail"  # nothing is written
    SKIP = "skip"  # it is counted and left out
    DEAD_LETTER = "dead-letter"  # its text goes to another topic, in the commit of the good rows


class BadRows(NamedTuple):
    """--on-bad-row and --dead-letter-topic."""

    then: OnBadRow = OnBadRow.FAIL
    topic: str | None = None

    def check(self, written_to: str) -> None:
        """Raise InvalidOption unless a topic is named when one is needed, and another than that of the good rows."""
        if (self.topic is not None) != (self.then is OnBadRow.DEAD_LETTER):
            found = "only one of them"
            raise InvalidOption(f"wanted --on-bad-row dead-letter and --dead-letter-topic together, found {found}")
        if self.topic == written_to:
            raise InvalidOption(f"--dead-letter-topic: wanted another topic than --topic, found {written_to}")


class BadRow(NamedTuple):
    """A row that can't be read: `line` is where it begins, `text` are its bytes without the last line end."""

    line: int
    reason: str
    text: bytes


def refusal(place: str, bad: BadRow) -> InvalidRecord:
    """The error if a bad row stops the job."""
    return InvalidRecord(
        f"{place}: {bad.reason}; found {shown(bad.text)}. Nothing was written: fix the row, or run with "
        "--on-bad-row skip (count such rows and leave them out) or --on-bad-row dead-letter (keep them in a topic)"
    )


def shown(text: bytes) -> str:
    """The text of a row, shortened, on one line."""
    start = repr(text[: 4 * CHARACTERS_SHOWN].decode(errors="backslashreplace"))
    return start if len(start) <= CHARACTERS_SHOWN else start[:CHARACTERS_SHOWN] + "…"


def has_bad_rows(frame: DataFrame) -> bool:
    """Whether the frame says of each row if it could be read."""
    return BAD in frame.columns


def is_bad() -> Column:
    """The condition."""
    from pyspark.sql import functions as sql

    return sql.col(BAD).isNotNull()


def with_dead_letters(columns: Mapping[str, Column], topic: str, dead_letter_topic: str) -> dict[str, Column]:
    """The columns of good rows, to which bad rows are added under another topic: their text, and headers that say
    in which file and row it was and what is wrong with it.
    """
    from pyspark.sql import functions as sql

    bad = sql.col(BAD)
    headers = sql.array(
        *(
            sql.struct(sql.lit(name).alias("key"), bad[name].cast("string").cast("binary").alias("value"))
            for name in ("file", "row", "reason")
        )
    )
    good = {name: sql.when(~is_bad(), each) for name, each in columns.items() if name != "value"}
    return {
        **good,
        "topic": sql.when(is_bad(), dead_letter_topic).otherwise(topic),
        "value": sql.when(is_bad(), bad["text"]).otherwise(columns["value"].cast("binary")),
        "headers": sql.when(is_bad(), headers),
    }
