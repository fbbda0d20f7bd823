"""JSON is read without changing a character, and what is wrong is said in our own words."""

from __future__ import annotations

import json
import random

import pytest

from sparklog.core.texts.json_text import elements_of, fields_of, json_fault

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (r'{"a": "\ud83d", "\ude00": [1e400, -1E+999]}', None),
        ('{"a": ' + "9" * 5000 + "}", None),
        ('{"a": 1, "a": 2} \r\n', None),
        ("[1]", "wanted an object, found an array"),
        ('"1"', "wanted an object, found a string"),
        ("-1.5", "wanted an object, found a number"),
        ("true", "wanted an object, found true or false"),
        ("null", "wanted an object, found null"),
        ('{"a": NaN}', "wanted an object, found NaN, which is not JSON"),
        ('{"a": -Infinity}', "wanted an object, found -Infinity, which is not JSON"),
        ('{"a": 1', "wanted an object, found a text that ends too early"),
        ('{"a": "b', "wanted an object, found a text that ends too early"),
        ("", "wanted an object, found a text that ends too early"),
        ('{"a": 1}\r{}', "wanted an object, found more text after it, from character 10 on"),
        ('{"a": 01}', "wanted an object, found text that is not JSON, from character 8 on"),
        ('{"a": "\t"}', "wanted an object, found text that is not JSON, from character 8 on"),
        ("\ufeff{}", "wanted an object, found text that is not JSON, from character 1 on"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_our_own(text: str, fault: str | None) -> None:
    assert json_fault(text, "an object", dict) == fault


def test_nesting_that_is_too_deep_is_an_error_that_callers_know() -> None:
    with pytest.raises(RecursionError):
        json_fault(DEEP, "JSON")


def _token(dice: random.Random, depth: int) -> str:
    space = dice.choice(("", "", " ", "\t", "\n", "\r\n "))
    if depth and dice.random() < 0.4:
        inner = [_token(dice, depth - 1) for _ in range(dice.randrange(4))]
        if dice.random() < 0.5:
            return f"[{space}{f'{space},'.join(inner)}{space}]"
        return "{" + space + ",".join(f"{_string(dice)}{space}:{space}{part}" for part in inner) + space + "}"
    return dice.choice((_string(dice), "1e400", "-0.10", "9" * dice.randrange(1, 40), "true", "null", "[]", "{ }"))


def _string(dice: random.Random) -> str:
    parts = ("a", "é", r"\ud83d", r"\ude00", r"\"", r"\\", "{", "]", ",", ":", " ", r"\u0041")
    return '"' + "".join(dice.choice(parts) for _ in range(dice.randrange(5))) + '"'


def test_fields_and_elements_are_the_text_between_their_neighbours() -> None:
    for seed in range(2_000):
        dice = random.Random(seed)
        parts = [_token(dice, 3) for _ in range(dice.randrange(5))]
        listed = " [ " + " , ".join(parts) + "\n] "
        assert elements_of(listed) == parts, seed
        names = [_string(dice) for _ in parts]
        text = "{" + ",".join(f" {name} :\t{part} " for name, part in zip(names, parts, strict=True)) + "}"
        assert json_fault(text, "", dict) is None
        assert fields_of(text) == {json.loads(name): part for name, part in zip(names, parts, strict=True)}, seed
