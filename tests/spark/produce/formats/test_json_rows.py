"""JSON objects: passed on as they stand in the file, or named as bad. No Spark."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidRecord
from sparklog.spark.produce.formats.bad_rows import BadRow
from sparklog.spark.produce.formats.json_rows import field_text, fields_object, json_rows


def rows(*lines: bytes, **how: object) -> list[list[str | None] | BadRow]:
    given: dict[str, object] = {"encoding": "utf-8", "multiline": False, "folders": {}, **how}
    return [row if isinstance(row, BadRow) else row[:1] for row in json_rows(lines, **given)]  # type: ignore[arg-type]


def for_spark(line: bytes) -> tuple[str | None, str | None]:
    """The object as Spark can read it, and the fields that it lacks."""
    (row,) = json_rows((line,), encoding="utf-8", multiline=False, folders={})
    assert not isinstance(row, BadRow), row
    return row[1], row[2]


def test_an_object_is_passed_on_letter_by_letter() -> None:
    text = '{"z": 1.10, "a": 12345678901234567890123, "t": "caf\\u00e9 é", "n": null}'
    assert rows(b"", text.encode() + b"\r", b"  {} ") == [[text], ["{}"]]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": 1', "wanted a JSON object, found a text that ends too early"),
        (b'{"a": "b', "wanted a JSON object, found a text that ends too early"),
        (b'{"a": NaN}', "wanted a JSON object, found NaN, which is not JSON"),
        (b'{"a": 1} {"a": 2}', "wanted a JSON object, found more text after it, from character 10 on"),
        (b'{"a": 1}\r{"a": 2}', "found more text after it, from character 10 on"),
        (b'{"a": 01}', "wanted a JSON object, found text that is not JSON, from character 8 on"),
        (b'\xef\xbb\xbf{"a": 1}', "found text that is not JSON, from character 1 on"),
        (b"[1]", "wanted a JSON object, found an array"),
        (b'"1"', "wanted a JSON object, found a string"),
        (b"1", "wanted a JSON object, found a number"),
        (b"null", "wanted a JSON object, found null"),
        (b'{"a": "\xff"}', "byte 0xff is not utf-8: give the encoding"),
        (b'{"a": "\xed\xa0\xbd"}', "byte 0xed is not utf-8: give the encoding"),
        (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "wanted at most 100 levels"),
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


HALF = rb'{"a": "\ud83d", "b" : 1.10, "a b": {"c": ["\ude00\ud83d"]}, "\udc00": 3}'


def test_valid_json_that_no_decoder_takes_is_passed_on_and_spark_sees_the_other_fields() -> None:
    """Half of a surrogate pair, numbers that are too large for a double, or too long for Spark."""
    assert rows(HALF, b'{"a":1e400}', multiline=False) == [[HALF.decode()], ['{"a":1e400}']]
    assert rows(b"[%b, {}]" % HALF, multiline=True) == [[HALF.decode()], ["{}"]]
    assert rows(rb'{"y": "\ud83d"}', rb'{"x": "\ud83d"}', folders={"y": 7}) == [
        [r'{"y": "\ud83d"}'],
        [r'{"x": "\ud83d","y":7}'],
    ]
    assert for_spark(HALF) == ('{"a":null,"b":1.10,"a b":null}', '["a","a b"]')
    assert for_spark(b'{"a": -1e400, "b": [1E+999], "c": 1e308}') == ('{"a":null,"b":null,"c":1e308}', '["a","b"]')
    assert for_spark(b'{"a": %b, "b": 2, "c": "%b"}' % (b"9" * 1001, b"x" * 2000)) == (
        '{"a":null,"b":2,"c":"%s"}' % ("x" * 2000),
        '["a"]',
    )
    assert for_spark(b'{"a": %b}' % (b"9" * 1000)) == (None, None)
    assert for_spark(rb'{"a": "\ud83d\ude00 \\ud83d"}') == (None, None)
    assert for_spark(rb'{"a": "\ud83d", "a": 2}') == ('{"a":2}', "[]"), "the last value of a name counts"


@pytest.mark.parametrize("character", [b"-", b"0"])
def test_only_digits_of_numbers_are_too_many_for_spark(character: bytes) -> None:
    many = character * 1001
    assert for_spark(b'{"id":1,"note":"%b","%b":2,"c":["%b"]}' % (many, many, many)) == (None, None)
    assert for_spark(rb'{"note":"\"%b","n":%b}' % (many, b"9" * 1001)) == (
        rf'{{"note":"\"{many.decode()}","n":null}}',
        '["n"]',
    )
    assert for_spark(rb'{"note":"%b","list":["%b"],"half":"\ud83d"}' % (many, many)) == (
        f'{{"note":"{many.decode()}","list":["{many.decode()}"],"half":null}}',
        '["half"]',
    )


def test_a_field_fails_only_if_it_is_used_as_text() -> None:
    text = HALF.decode()
    assert fields_object(text, ("a", "b", "a b", "no")) == (
        r'{"a":"\ud83d","b":1.10,"a b":{"c":["\ude00\ud83d"]},"no":null}'
    )
    assert (field_text(text, "b"), field_text(text, "a b")) == ("1.10", r'{"c":["\ude00\ud83d"]}')
    assert field_text('{"a": [ 1e400 , "x  y" ]}', "a") == '[1e400,"x  y"]'
    with pytest.raises(InvalidRecord, match="wanted a text in field 'a', found half of a surrogate pair"):
        field_text(text, "a")
