"""Fields of JSON: against a slow model of the table in docs/maintenance.md, each value is equal or it is bad."""

from __future__ import annotations

import base64
import json
import random
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sql

from sparklog.core.errors import InvalidOption
from sparklog.spark.materialize.columns import parsed_schema
from sparklog.spark.materialize.json_fields import json_fields

pytestmark = pytest.mark.spark

BAD = object()
TYPES = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(38,0)"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
)
NUMBERS = (
    *("0", "-0", "0.0", "-0.0e9", "1", "-7", "127", "128", "32768", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "9007199254740992", "9007199254740993", "12345678901234567", "12345678901234568"),
    *("1.10", "1.239", "1.230", "999.99", "1000", "999.995", "1e2", "1E+2", "1.5e-1", "12e-2", "1e400", "-1e400"),
    *(
        "1e-400",
        "0.1",
        "0.10000000000000001",
        "0.12345678901234567",
        "0.1234567890123456789",
        "2.5e-7",
        "1691241070000",
    ),
    *("5.684341886080802e-14", "1.7976931348623157e308", "3.4028235e38", "3.14159274", "3.14159265", "16777217"),
    "123456789012345678901234567890123456789",
)
STRINGS = (
    *(
        "",
        "a",
        "1.10",
        "5",
        "true",
        "null",
        "{}",
        "[1]",
        '{"a": 1}',
        "~n5",
        "~",
        "~s",
        "~x",
        "\\",
        '"',
        "\n",
        "ab\u2028",
    ),
    *("\U0001f600", "é", "\0", "a, 5", ": 5,", 'x": 5, "y": 1', "12:30", "2024", "2024-02-29", "2023-02-29"),
    *("2024-02-29T12:30:00Z", "2024-02-29 12:30", "2024-02-29T12:30:00.123456+01:30", "2024-02-29T12:30:00.123456789Z"),
    *("2024-02-29T12:30:00.1234560", "2024-02-29T24:30:00Z", "2024-02-29T", "2024-2-29", "+2024-02-29"),
    *("AAEC", "AA==", "AB==", "AA", "aGk=", "aG k=", "1691241070000", "NaN", "Infinity", "-1"),
)
OTHERS = ("true", "false", "{}", "[]", '{"a":1}', "[1]", '"\\ud83d"', '"\\ude00 x"', '"a\\\\\\ud83d"', '"\\\\ud83d"')
ESCAPED = ('"\\u007en5"', '"\\ud83d\\ude00"', '"\\u007b}"', '"\\/"', '"\\u0041"')


def text_of(dice: random.Random, string: str) -> str:
    return json.dumps(string, ensure_ascii=dice.random() < 0.5)


def tokens(dice: random.Random) -> list[str]:
    made = [
        f"{dice.choice(('', '-'))}{dice.randrange(10**9)}.{dice.randrange(10 ** dice.randrange(1, 12))}" for _ in "ab"
    ]
    made += [
        repr(dice.uniform(-1, 1) * 10.0 ** dice.randrange(-30, 30)),
        str(dice.randrange(10 ** dice.randrange(1, 25))),
    ]
    return [*NUMBERS, *(text_of(dice, string) for string in STRINGS), *OTHERS, *ESCAPED, *made]


def modelled(type_: str, token: str) -> Any:
    """The value of a token that isn't null, or BAD."""
    if token[0] in "-0123456789":
        return of_number(type_, token)
    if token in ("true", "false"):
        return token == "true" if type_ == "boolean" else BAD
    if token[0] in "{[":
        return BAD
    string = json.loads(token)
    if any("\ud800" <= character <= "\udfff" for character in string):
        return BAD
    return of_string(type_, string)


def of_number(type_: str, token: str) -> Any:
    number = Decimal(token)
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}.get(type_)
    if bits is not None:
        whole = re.fullmatch("-?[0-9]+", token) is not None
        return int(token) if whole and -(2 ** (bits - 1)) <= int(token) < 2 ** (bits - 1) else BAD
    if type_.startswith("decimal"):
        precision, scale = map(int, type_[8:-1].split(","))
        fits = abs(number) < Decimal(10) ** (precision - scale) and number == round(number, scale) if number else True
        return number if fits else BAD
    if type_ == "double":
        return of_floating(number, float(token), repr(float(token)), 17, 1e-290, 1e290)
    if type_ == "float":
        import numpy as np

        with np.errstate(over="ignore"):
            made = np.float32(token)
        return of_floating(number, float(made), str(made), 9, 1e-30, 1e30)
    return BAD


def of_floating(number: Decimal, made: float, shortest: str, most: int, least: float, greatest: float) -> Any:
    """The float, if it has the digits of the number when it's written with as many, or as shortly as can be."""
    if not number:
        return made
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    if not least <= abs(made) <= greatest or len(digits) > most:
        return BAD
    return made if number in (Decimal(shortest), Decimal(f"{Decimal(made):.{len(digits) - 1}e}")) else BAD


def of_string(type_: str, string: str) -> Any:
    if type_ == "string":
        return string
    if type_ == "binary":
        try:
            made = base64.b64decode(string, validate=True)
        except ValueError:
            return BAD
        return made if base64.b64encode(made).decode() == string else BAD
    if type_ == "date":
        try:
            return date.fromisoformat(string) if len(string) == 10 else BAD
        except ValueError:
            return BAD
    if type_ in ("timestamp", "timestamp_ntz"):
        zone = r"(Z|[+-]\d\d(:?\d\d)?)?" if type_ == "timestamp" else "()()"
        parts = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(:\d\d)?)(\.\d{1,6}0*)?" + zone, string)
        if parts is None or (parts[4] and not parts[3]):
            return BAD
        try:
            made = datetime.fromisoformat(parts[1] + "T" + parts[2] + (parts[4] or "")[:7] + (parts[5] or ""))
        except ValueError:
            return BAD
        return made.replace(tzinfo=made.tzinfo or UTC).astimezone(UTC) if type_ == "timestamp" else made
    return BAD


def read(spark: SparkSession, texts: list[str], ddl: str) -> list[Row | None]:
    schema = parsed_schema(spark, "--schema", ddl)
    frame = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n int, text string").coalesce(1)
    rows = frame.select("n", json_fields(sql.col("text"), schema).alias("read")).collect()
    return [row.read for row in sorted(rows, key=lambda row: row.n)]


def same(found: Any, wanted: Any) -> bool:
    if isinstance(found, datetime) and wanted is not BAD and wanted.tzinfo is not None:
        found = found.astimezone(UTC)
    if isinstance(found, float):
        return repr(found) == repr(wanted)  # -0.0 == 0.0
    return found is not None and wanted is not BAD and found == wanted


@pytest.mark.parametrize("type_", TYPES)
def test_each_type_takes_its_own_token_or_the_value_is_bad(spark: SparkSession, type_: str) -> None:
    dice = random.Random(43)
    given = [token for _ in range(8) for token in tokens(dice)]
    found = read(
        spark, [f'{{"other": [1, {{"f": 2}}], "f" :{dice.choice(("", " "))}{token}}}' for token in given], f"f {type_}"
    )
    wrong = []
    for token, row in zip(given, found, strict=True):
        wanted = modelled(type_, token)
        if (row is None) != (wanted is BAD) or (row is not None and not same(row.f, wanted)):
            wrong.append((token, row, None if wanted is BAD else wanted))
    assert wrong == []


@pytest.mark.parametrize("type_", ["double", "float"])
def test_a_float_as_any_program_writes_it_is_good_and_its_neighbours_are_not(spark: SparkSession, type_: str) -> None:
    """Beside powers of two as well, where the distance of two numbers changes."""
    import numpy as np

    dice = random.Random(5)
    kind, most, powers = (np.float64, 17, range(-900, 900, 7)) if type_ == "double" else (np.float32, 9, range(-95, 95))
    numbers = [kind(dice.uniform(-1, 1) * 10.0 ** dice.randrange(-25, 25)) for _ in range(1_500)]
    numbers += [kind(889678648778823.8), kind(2.0**53), kind(2.0**54), kind(2.0**-44)]
    for power in powers:
        exact = kind(2.0**power)
        numbers += [exact, np.nextafter(exact, kind(0)), np.nextafter(exact, kind(np.inf))]
    written = [text for number in numbers for text in (str(number), f"{Decimal(float(number)):.{most - 1}e}")]
    beside = []
    for text in written:
        digits = Decimal(text).as_tuple()
        near = int("".join(map(str, digits.digits))) + dice.choice((-1, 1))
        beside.append(f"{near}e{digits.exponent}")
    given = [*written, *beside]
    found = read(spark, [f'{{"f":{text}}}' for text in given], f"f {type_}")
    wanted = [modelled(type_, text) for text in given]
    wrong = [
        (text, row, value)
        for text, row, value in zip(given, found, wanted, strict=True)
        if (row is None) != (value is BAD) or (row is not None and row.f != value)
    ]
    assert wrong == []
    assert BAD not in wanted[: len(written)]
    assert wanted.count(BAD) > 1_000


def test_arrays_maps_and_structs_are_good_if_all_in_them_is(spark: SparkSession) -> None:
    dice = random.Random(7)
    kinds = ("int", "double", "string", "boolean", "timestamp")
    nested = ", ".join(
        f"s{n} struct<a:{kind}, l:array<{kind}>, m:map<string,array<{kind}>>>" for n, kind in enumerate(kinds)
    )
    texts, wanted = [], []
    for _ in range(300):
        n = dice.randrange(len(kinds))
        good = [token for token in tokens(dice) if modelled(kinds[n], token) is not BAD]
        chosen = [dice.choice(good) if dice.random() < 0.97 else dice.choice(tokens(dice)) for _ in range(6)]
        chosen = ["null" if dice.random() < 0.1 else token for token in chosen]
        values = [None if token == "null" else modelled(kinds[n], token) for token in chosen]
        a, b, c, d, e, f = chosen
        key = dice.choice(STRINGS[:12])
        name = text_of(dice, key)
        texts.append(f'{{"s{n}": {{"l": [{a},{b} , {c}], "m": {{{name}: [{d}], "z:": [{e}]}}, "a":{f}}}}}')
        is_bad = any(value is BAD for value in values) or key.startswith("~x")
        wanted.append(BAD if is_bad else (values[5], values[:3], {key: [values[3]], "z:": [values[4]]}))
    wrong = []
    for text, row, value in zip(texts, read(spark, texts, nested), wanted, strict=True):
        if (row is None) != (value is BAD):
            wrong.append((text, row))
        elif row is not None and value is not BAD:
            (struct,) = [field for field in row if field is not None]
            if "T" not in text and (struct.a, struct.l, struct.m) != value:
                wrong.append((text, row))
    assert wrong == []
    assert sum(value is BAD for value in wanted) > 30


NO_OBJECTS = (
    *(
        '{"a":01}',
        '{"a":1.}',
        '{"a":.5}',
        '{"a":+1}',
        '{"a":1e}',
        '{"a":-}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        "{1:2}",
    ),
    *(
        "{true:1}",
        '{"a":1true}',
        '{"a":truefalse}',
        '{"a":1 2}',
        '{"a":1-2}',
        '{"a":0x1}',
        '{"a":1}}',
        '{"a":1},{}',
    ),
    *(
        '{"a":1',
        '{"a":"b}',
        "1",
        '"a"',
        "null",
        "",
        " ",
        '{"a":"\\q"}',
        '{"a":"\\u12"}',
        '{"a" 1}',
        "{'a':1}",
        "[{}]",
    ),
    *('{"a":1,}', '{"a":1},"end~":1', '{"a":5"b"}', '{"b":1 :2}'),
    *('{"a":1},"b":2', '{"a":1},"whole~":{"a":7}', 'null,"whole~":{"a":7}', '{"a":1},"bad~":"b"'),
    *('{"a":1},"end~":1}', '{"a":1}],"b":[2', '{"a":1}],[{}', '{"whole~":{"a":1},"end~":1}}'),
)


@pytest.mark.parametrize("ddl", ["a bigint, b double", "a string", "a bigint, l array<int>"])
def test_what_is_no_json_object_is_bad(spark: SparkSession, ddl: str) -> None:
    read_as = zip(NO_OBJECTS, read(spark, list(NO_OBJECTS), ddl), strict=True)
    assert [(text, row) for text, row in read_as if row is not None] == []


def test_names_and_fields_that_are_not_wanted_stand_in_no_way(spark: SparkSession) -> None:
    names = ["x:", "", "a\\b\\", "~n", "{", "e\u0301", 'q"', "T ", "tf"]
    ddl = ", ".join(f"`{name}` double" for name in names if name)
    dice = random.Random(1)
    texts = [f'{{{text_of(dice, name)}:{n}.5,"other":"\\ud83d"}}' for n, name in enumerate(names) if name]
    found = read(spark, texts, ddl)
    assert [[value for value in row if value is not None] for row in found] == [
        [n + 0.5] for n, name in enumerate(names) if name
    ]


def test_a_long_text_is_read(spark: SparkSession) -> None:
    long = 'ab\\"1, 2:3 ' * 400_000
    (row,) = read(spark, [f'{{"a":"{long}","l":[{",".join(["1"] * 100_000)}]}}'], "a string, l array<int>")
    assert row is not None
    assert (len(row.a), len(row.l)) == (11 * 400_000 - 400_000, 100_000)


@pytest.mark.parametrize("type_", ["variant", "interval day to second", "map<int,string>", "array<variant>", "void"])
def test_a_type_that_json_has_not_is_refused(spark: SparkSession, type_: str) -> None:
    with pytest.raises(InvalidOption, match=r"--schema: wanted a column of boolean, .*, found f "):
        parsed_schema(spark, "--schema", f"f {type_}")
