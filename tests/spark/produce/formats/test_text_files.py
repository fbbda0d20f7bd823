"""Lines of several files, in batches, become rows of each file. No Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparklog.core.errors import InvalidInput, InvalidRecord
from sparklog.spark.produce.formats.bad_rows import BAD, BadRow
from sparklog.spark.produce.formats.text_files import FILE, LINE, START, FilePart, check_first_line, read_parts


def batch(*lines: tuple[str, int, bytes], day: int | None = None) -> pa.RecordBatch:
    files, starts, texts = zip(*lines, strict=True)
    return pa.record_batch(
        {
            FILE: files,
            START: starts,
            LINE: pa.array(texts, pa.binary()),
            "day": pa.array([day] * len(lines), pa.int32()),
        }
    )


def numbered(part: FilePart, lines: Iterator[bytes]) -> Iterator[list[str] | BadRow]:
    for number, line in enumerate(lines, 1):
        yield BadRow(number, "it is bad", line) if line == b"bad" else [f"{part.place(number)}: {line.decode()}"]


def test_parts_go_on_over_batches_and_end_with_their_file() -> None:
    batches = [
        batch(("file:/a%20b", 0, b"1"), ("file:/a%20b", 0, b"2")),
        batch(("file:/a%20b", 0, b"3"), ("file:/a%20b", 9, b"4"), ("s3a://b/c", 0, b"bad")),
        batch(("s3a://b/c", 0, b"6"), day=7),
    ]
    table = pa.Table.from_batches(list(read_parts(batches, numbered, ["x"], stop_at_bad=False)))
    assert table["x"].to_pylist() == [
        "/a b, line 1: 1",
        "/a b, line 2: 2",
        "/a b, line 3: 3",
        "/a b, line 1 from byte 9 on: 4",
        None,
        "s3a://b/c, line 1: 6",
    ]
    assert table["day"].to_pylist() == [None] * 5 + [7]
    assert [each for each in table[BAD].to_pylist() if each] == [
        {"file": "s3a://b/c", "row": 1, "reason": "it is bad", "text": b"bad"}
    ]


def test_a_bad_row_stops_with_file_line_and_text() -> None:
    with pytest.raises(InvalidRecord) as raised:
        list(read_parts([batch(("file:/a", 0, b"1"), ("file:/a", 0, b"bad"))], numbered, ["x"], stop_at_bad=True))
    assert str(raised.value).startswith("INVALID_RECORD: /a, line 2: it is bad; found 'bad'. Nothing was written")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"PAR1\x15", "Parquet"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"\xff\xfea\0", "UTF-16"),
        (b"a\0b\0", "zero bytes"),
    ],
)
def test_a_file_that_is_no_text_is_refused_by_what_it_is(line: bytes, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        check_first_line("x.csv", line)
    check_first_line("x.csv", b"\xc3\xa9,b")
