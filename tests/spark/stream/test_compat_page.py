"""docs/compat-streams.md names tests that are there."""

from __future__ import annotations

import re

from tests.spark.conftest import PROJECT

PLACES = ("tests/spark/stream", "tests/core", "tests/options")


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (PROJECT / "docs" / "compat-streams.md").read_text(encoding="utf-8")))
    there = {
        test
        for place in PLACES
        for path in (PROJECT / place).rglob("test_*.py")
        for test in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 15
    assert named <= there
