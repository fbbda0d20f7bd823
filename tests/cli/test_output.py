"""Tables and help pages for people."""

from __future__ import annotations

from sparklog.cli.output import ending, table


def test_columns_are_aligned_and_nothing_is_cut_or_taken_as_markup() -> None:
    rows = [{"range": "[a]", "n": 5}, {"range": "[/b] " + "x" * 200, "n": None}]
    lines = table(rows).split("\n")
    assert [line.split()[0] for line in lines] == ["range", "[a]", "[/b]"]
    assert lines[2].endswith("x" * 200 + "  -")
    assert [line[207:] for line in lines] == ["n", "5", "-"]


def test_help_ends_with_examples_as_they_were_written() -> None:
    assert ending("one", "two").startswith("\b\nExamples:\n  one\n  two\n\n")
