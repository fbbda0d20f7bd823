"""CSV rows: equal to those of Python's csv module, or named as bad. No Spark."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.errors import InvalidInput
from sparklog.spark.produce.formats import csv_rows
from sparklog.spark.produce.formats.bad_rows import BadRow
from sparklog.spark.produce.formats.csv_rows import CsvDialect, CsvRows, Row, check_header, column_names

VALUES = st.text(st.sampled_from('a0é ,;"\n\r\t\0\\\u2028'), max_size=6)
TABLES = st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(VALUES, min_size=width, max_size=width), min_size=1))


def lines(text: str, encoding: str = "utf-8") -> list[bytes]:
    """As Spark's text source cuts a file."""
    cut = text.encode(encoding).split(b"\n")
    return cut if cut[-1] else cut[:-1]


def rows(text: str, width: int | None = None, **dialect: object) -> list[Row | BadRow]:
    found = CsvRows(lines(text), CsvDialect(**dialect))  # type: ignore[arg-type]
    return list(found if width is None else found.of_width(width))


@given(TABLES, st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.sampled_from([",", ";", "\t"]))
def test_what_python_wrote_is_read_as_python_reads_it(table: list[Row], quoting: int, sep: str) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=quoting, delimiter=sep).writerows(table)
    wanted = list(csv.reader(io.StringIO(file.getvalue(), newline=""), delimiter=sep))
    assert rows(file.getvalue(), sep=sep) == [each for each in wanted if each] == [each for each in table if each]


@pytest.mark.parametrize(
    ("text", "dialect", "wanted"),
    [
        ('a,"b\r\nc"\r\nd,e', {}, [["a", "b\r\nc"], ["d", "e"]]),
        ('"a ""b""", c \n\n"",\n', {}, [['a "b"', " c "], ["", ""]]),
        ('a\\"b,"c\\"d"\n', {"escape": "\\"}, [['a"b', 'c"d']]),
        ('"a,b"\n', {"quote": ""}, [['"a', 'b"']]),
        ('# "\na,1\n#b\n', {"comment": "#"}, [["a", "1"]]),
        ('a, "b, c"\n', {"skip_initial_space": True}, [["a", "b, c"]]),
        ("caf\xe9;1\n", {"sep": ";"}, [["café", "1"]]),
    ],
)
def test_dialects(text: str, dialect: dict[str, object], wanted: list[Row]) -> None:
    assert rows(text, **dialect) == wanted


@pytest.mark.parametrize(
    ("text", "dialect", "wanted"),
    [
        (
            "1,2\n3,4,5\n6\n7,8\n",
            {},
            [(2, "wanted 2 columns, found 3", b"3,4,5"), (3, "wanted 2 columns, found 1", b"6")],
        ),
        ('1,"a\nb",c\r\n7,8\n', {}, [(1, "wanted 2 columns, found 3", b'1,"a\nb",c')]),
        ('1,"a"b\n7,8\n', {}, [(1, "quotes inside a value are doubled", b'1,"a"b')]),
        ("1,a\rb\n7,8\n", {}, [(1, "carriage return outside quotes", b"1,a\rb")]),
        ('1,"a\n7,8\n', {}, [(1, "not closed before its end", b'1,"a')]),
        ('1,"a\n7,8\n', {"multiline": False}, [(1, "not closed before the end of its line", b'1,"a')]),
    ],
)
def test_a_bad_row_has_its_line_its_text_and_a_reason_and_the_next_row_is_read(
    text: str, dialect: dict[str, object], wanted: list[tuple[int, str, bytes]]
) -> None:
    found = rows(text, 2, **dialect)
    bad = [each for each in found if isinstance(each, BadRow)]
    assert [(each.line, each.text) for each in bad] == [(line, row) for line, _, row in wanted]
    assert all(reason in each.reason for each, (_, reason, _) in zip(bad, wanted, strict=True))
    assert [each for each in found if not isinstance(each, BadRow)][-1] == ["7", "8"]


def test_other_bytes_than_the_encodings_are_a_bad_row_and_not_question_marks() -> None:
    (bad, good) = CsvRows([b"1,caf\xe9", b"2,x"], CsvDialect())
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.text, good) == (1, b"1,caf\xe9", ["2", "x"])
    assert "byte 0xe9 is not utf-8" in bad.reason
    assert list(CsvRows([b"1,caf\xe9"], CsvDialect(encoding="iso8859-1"))) == [["1", "café"]]


def test_a_wrong_byte_in_a_value_over_several_lines_makes_no_row_of_the_lines_in_it() -> None:
    bad, good = rows_of(b'1,"begin\nbad \xff byte\n9,evil\nend"\n2,x\n')
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.text.count(b"\n"), good) == (1, 3, ["2", "x"])
    assert "byte 0xff is not utf-8" in bad.reason


def rows_of(body: bytes) -> list[object]:
    return list(CsvRows(body.removesuffix(b"\n").split(b"\n"), CsvDialect()))


def test_a_quote_that_is_never_closed_costs_one_row_and_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "LONGEST_ROW_BYTES", 100)
    found = rows('1,"a\n' + "7,8\n" * 1000, 2)
    assert isinstance(found[0], BadRow)
    assert found[1:] == [["7", "8"]] * 1000


def test_a_quote_that_is_never_closed_costs_no_good_row_though_later_rows_have_quotes() -> None:
    bad, *good = rows('1,"open\n2,b\n3,"c"\n4,d\n', 2)
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.text, good) == (1, b'1,"open', [["2", "b"], ["3", "c"], ["4", "d"]])
    assert bad.reason.startswith("a value in quotes is not closed before line 3, which has a quote: wanted a separator")


def test_columns_have_their_own_names_or_are_refused() -> None:
    assert column_names(["a b", "", "c"], "f", True, []) == ("a b", "_c1", "c")
    assert column_names(["1", "1"], "f", False, []) == ("_c0", "_c1")
    with pytest.raises(
        InvalidInput, match=r"f: wanted columns with different names .* found 'a' as column 1 and 'A' as column 2"
    ):
        column_names(["a", "A"], "f", True, [])
    with pytest.raises(InvalidInput, match=r"found folder Year= and '[Yy]ear' as column 1"):
        column_names(["year"], "f", True, ["Year"])


def test_files_with_other_headers_are_refused() -> None:
    check_header(["a", "b"], ["a", "b"], "x", "y")
    with pytest.raises(InvalidInput, match="x: wanted the header of y, a,b, found b,a"):
        check_header(["b", "a"], ["a", "b"], "x", "y")
