"""Help pages for people."""

from __future__ import annotations

from sparklog.cli.output import ending


def test_help_ends_with_examples_as_they_were_written() -> None:
    assert ending("one", "two").startswith("\b\nExamples:\n  one\n  two\n\n")
