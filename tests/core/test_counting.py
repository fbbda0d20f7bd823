"""Counts for people."""

from __future__ import annotations

from sparklog.core.counting import counted


def test_one_is_no_plural() -> None:
    assert [counted(each, "record") for each in (0, 1, 2, 1000)] == [
        "0 records",
        "1 record",
        "2 records",
        "1,000 records",
    ]
    assert [counted(each, "entry", "entries") for each in (1, 2)] == ["1 entry", "2 entries"]
