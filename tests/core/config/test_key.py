from __future__ import annotations

import difflib
import pickle
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.config.key import ConfigKey, ValueType, did_you_mean, nearest, shown
from sparklog.core.errors import InvalidConfig

LONG = ConfigKey("a.ms", ValueType.LONG, 5, "", minimum=-1)
INT = ConfigKey("a.bytes", ValueType.INT, 5, "", minimum=1)
RATIO = ConfigKey("ratio", ValueType.DOUBLE, 0.5, "", minimum=0, maximum=1)
FLAG = ConfigKey("flag", ValueType.BOOL, False, "")
WORD = ConfigKey("word", ValueType.STRING, "x", "")
CHOICE = ConfigKey("choice", ValueType.STRING, "CreateTime", "", choices=("CreateTime", "LogAppendTime"))
LIST = ConfigKey("list", ValueType.LIST, ("delete",), "", choices=("delete", "compact"))
POLICIES = "one or more of delete, compact, separated by commas"
SIZE = ConfigKey("size", ValueType.BYTES, 1, "", minimum=1)


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        (LONG, "-1", -1),
        (LONG, " 86400000 ", 86_400_000),
        (LONG, 86_400_000, 86_400_000),
        (LONG, 1e3, 1000),
        (LONG, str(2**63 - 1), 2**63 - 1),
        (INT, "2147483647", 2**31 - 1),
        (RATIO, "0.25", 0.25),
        (RATIO, 1, 1.0),
        (FLAG, True, True),
        (FLAG, "FALSE", False),
        (WORD, " y ", "y"),
        (CHOICE, "logappendtime", "LogAppendTime"),
        (LIST, "compact, delete", ("compact", "delete")),
        (LIST, ["compact"], ("compact",)),
        (SIZE, "128m", 128 << 20),
        (SIZE, "1 GiB", 1 << 30),
        (SIZE, "512KB", 512 << 10),
        (SIZE, 77, 77),
    ],
)
def test_legal_values_are_typed(key: ConfigKey, raw: object, value: object) -> None:
    parsed = key.parse(raw)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("key", "raw", "message"),
    [
        (LONG, "7d", "a.ms: wanted an integer >= -1 (milliseconds), found '7d'"),
        (LONG, "-2", "a.ms: wanted an integer >= -1 (milliseconds), found '-2'"),
        (LONG, True, "a.ms: wanted an integer >= -1 (milliseconds), found True"),
        (LONG, 1.5, "a.ms: wanted an integer >= -1 (milliseconds), found 1.5"),
        (LONG, "1_000", "a.ms: wanted an integer >= -1 (milliseconds), found '1_000'"),
        (LONG, 2**63, f"a.ms: wanted an integer >= -1 (milliseconds), found {2**63}"),
        (LONG, None, "a.ms: wanted an integer >= -1 (milliseconds), found None"),
        (INT, str(2**31), "a.bytes: wanted an integer >= 1 (bytes), found '2147483648'"),
        (RATIO, "1.1", "ratio: wanted a number from 0 to 1, found '1.1'"),
        (RATIO, "nan", "ratio: wanted a number from 0 to 1, found 'nan'"),
        (FLAG, "yes", "flag: wanted true or false, found 'yes'"),
        (FLAG, 1, "flag: wanted true or false, found 1"),
        (CHOICE, "now", "choice: wanted one of CreateTime, LogAppendTime, found 'now'"),
        (
            LIST,
            "delete,shred",
            f"list: wanted {POLICIES}, found 'delete,shred'",
        ),
        (LIST, "", f"list: wanted {POLICIES}, found ''"),
        (
            LIST,
            "delete,delete",
            f"list: wanted {POLICIES}, found 'delete,delete'",
        ),
        (SIZE, "12 parsecs", "size: wanted bytes (a number, or like 512k, 128m, 1g) >= 1, found '12 parsecs'"),
        (SIZE, "0", "size: wanted bytes (a number, or like 512k, 128m, 1g) >= 1, found '0'"),
    ],
)
def test_illegal_values_are_refused_with_key_legal_and_found(key: ConfigKey, raw: object, message: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        key.parse(raw)
    assert str(raised.value) == f"INVALID_CONFIG: {message}"


@given(raw=st.one_of(st.integers(-1, 2**63 - 1), st.floats(0, 1), st.booleans(), st.text(max_size=20)))
def test_canonical_text_gives_the_same_value_again(raw: object) -> None:
    for key in (LONG, INT, RATIO, FLAG, WORD, SIZE):
        value = key.read(raw)
        if value is not None:
            text = key.canonical(raw)
            assert key.parse(text) == value
            assert key.canonical(text) == text


def test_canonical_text_is_kafkas() -> None:
    assert FLAG.canonical(True) == "true"
    assert LIST.canonical(" Compact , delete") == "compact,delete"
    assert LONG.canonical("+007") == "7"


def test_nearest_name_is_offered_only_if_one_is_near() -> None:
    known = ["retention.ms", "retention.bytes", "startingOffsets"]
    assert nearest("retention.mss", known) == "retention.ms"
    assert nearest("STARTINGOFSETS", known) == "startingOffsets"
    assert nearest("zzz", known) is None
    assert did_you_mean("retention.m", known) == "; did you mean retention.ms?"
    assert did_you_mean("zzz", known) == ""


def test_a_very_long_name_is_near_none_and_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nearest("x" * 300, ["x" * 299]) is not None
    monkeypatch.setattr(difflib, "get_close_matches", None)
    assert nearest("x" * 301, ["x" * 300]) is None
    assert did_you_mean("x" * 40 * 2**20, ["x" * 300]) == ""


def test_of_thousands_of_known_names_few_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    close = difflib.get_close_matches

    def counted(word: str, candidates: Collection[str], *, n: int, cutoff: float) -> list[str]:
        compared.append(len(candidates))
        return close(word, candidates, n=n, cutoff=cutoff)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    known = [f"{'orders-of-one-shop-' * 6}{number:05}" for number in range(10_000)]
    assert nearest(f"{known[7_000]}x", known) == known[7_000]
    assert nearest(known[7_000].upper(), [*known, "payments"]) == known[7_000]
    assert nearest("paymnets", [*known, "payments"]) == "payments"
    assert compared == [100, 100, 1]


def test_long_values_are_cut_in_messages() -> None:
    assert len(shown("x" * 10_000)) < 130


def test_keys_pickle() -> None:
    assert pickle.loads(pickle.dumps(LIST)) == LIST


@pytest.mark.parametrize("raw", ["9" * 5_000, "9" * 5_000 + "k"])
def test_more_digits_than_python_reads_are_no_number(raw: str) -> None:
    for kind in (ValueType.INT, ValueType.LONG, ValueType.BYTES):
        assert ConfigKey("k", kind, 1, "").read(raw) is None
