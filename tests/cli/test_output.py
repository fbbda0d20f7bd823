"""Values for people: units by name, aligned columns."""

from __future__ import annotations

import pytest

from sparklog.cli.output import ending, human, labels_of, table


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("at_ms", 0, "1970-01-01T00:00:00.000Z"),
        ("at_ms", 1_359_676_799_001, "2013-01-31T23:59:59.001Z"),
        ("at_ms", -1, "1969-12-31T23:59:59.999Z"),
        ("at_ms", 2**62, "4611686018427387904 ms (after the year 9999)"),
        ("at_ms", None, "-"),
        ("size_bytes", 1023, "1,023 B"),
        ("size_bytes", 1536, "1.5 KiB"),
        ("size_bytes", 3 << 40, "3.0 TiB"),
        ("records", 12_345, "12345"),
        ("isr", ["a", "b"], "a, b"),
        ("isr", [], "-"),
        ("healthy", True, "yes"),
    ],
)
def test_a_value_is_shown_by_the_unit_in_its_name(name: str, value: object, shown: str) -> None:
    assert human(name, value) == shown


def test_names_of_others_can_not_steer_a_terminal() -> None:
    assert human("client", "a\x1b]0;x\x07\u202eb") == "a\\x1b]0;x\\x07\\u202eb"
    assert human("clients", ["a\nb", "c"]) == "a\\nb, c"


def test_the_unit_is_not_shown_twice() -> None:
    assert list(labels_of(("oldest_ms", "size_bytes", "log_start")).values()) == ["oldest", "size", "log start"]


def test_two_columns_have_two_names() -> None:
    names = ("deleted", "deleted_bytes", "deleted_ms", "done_bytes")
    assert list(labels_of(names).values()) == ["deleted", "deleted size", "deleted time", "done"]


def test_columns_are_aligned_and_nothing_is_cut_or_taken_as_markup() -> None:
    rows = [{"range": "[a]", "n": 5}, {"range": "[/b] " + "x" * 200, "n": None}]
    lines = table(rows).split("\n")
    assert [line.split()[0] for line in lines] == ["range", "[a]", "[/b]"]
    assert lines[2].endswith("x" * 200 + "  -")
    assert [line[207:] for line in lines] == ["n", "5", "-"]


def test_help_ends_with_examples_as_they_were_written() -> None:
    assert ending("one", "two").startswith("\b\nExamples:\n  one\n  two\n\n")
