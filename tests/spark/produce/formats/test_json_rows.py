"""JSON objects: passed on as they stand in the file, or named as bad. No Spark."""

from __future__ import annotations

import pytest

from sparklog.spark.produce.formats.bad_rows import BadRow
from sparklog.spark.produce.formats.json_rows import json_rows


def rows(*lines: bytes, **how: object) -> list[list[str] | BadRow]:
    given: dict[str, object] = {"encoding": "utf-8", "multiline": False, "folders": {}, **how}
    return list(json_rows(lines, **given))  # type: ignore[arg-type]


def test_an_object_is_passed_on_letter_by_letter() -> None:
    text = '{"z": 1.10, "a": 12345678901234567890123, "t": "caf\\u00e9 é", "n": null}'
    assert rows(b"", text.encode() + b"\r", b"  {} ") == [[text], ["{}"]]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": 1', "wanted a JSON object: Input data was truncated"),
        (b'{"a": NaN}', "invalid character"),
        (b'{"a": 1} {"a": 2}', "trailing characters"),
        (b"[1]", "found another value"),
        (b'{"a": "\xff"}', "utf-8"),
        (b"[", "multiLine=true"),
    ],
)
def test_a_broken_line_is_a_bad_row_and_the_next_is_read(line: bytes, reason: str) -> None:
    bad, good = rows(line, b'{"b":2}')
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.text, good) == (1, line, ['{"b":2}'])
    assert reason in bad.reason


def test_a_document_is_an_object_or_an_array_of_objects() -> None:
    assert rows(b"[", b'{"a":', b"1.10},", b'{"b":2}', b"]", multiline=True) == [['{"a":\n1.10}'], ['{"b":2}']]
    assert rows(b"{", b"}", multiline=True) == [["{\n}"]]
    assert rows(multiline=True) == []
    (bad,) = rows(b"[{}", multiline=True)
    assert isinstance(bad, BadRow)
    first, second = rows(b"[1,", b"{}]", multiline=True)
    assert isinstance(first, BadRow)
    assert second == ["{}"]


def test_values_of_folders_are_added_to_objects_that_do_not_have_them() -> None:
    assert rows(b'{"a": 1}', b"{}", b'{"y": 2}', folders={"y": 7}) == [['{"a": 1,"y":7}'], ['{"y":7}'], ['{"y": 2}']]
