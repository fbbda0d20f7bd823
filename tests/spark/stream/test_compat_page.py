"""docs/compat-streams.md and docs/migrate-from-kafka.md name tests that are there."""

from __future__ import annotations

import re

import pytest

from tests.spark.conftest import PROJECT

PLACES = ("tests/spark", "tests/core", "tests/options")


@pytest.mark.parametrize(("page", "least"), [("compat-streams.md", 15), ("migrate-from-kafka.md", 8)])
def test_every_test_that_the_page_names_is_there(page: str, least: int) -> None:
    named = set(re.findall(r"`(test_\w+)`", (PROJECT / "docs" / page).read_text(encoding="utf-8")))
    there = {
        test
        for place in PLACES
        for path in (PROJECT / place).rglob("test_*.py")
        for test in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) >= least
    assert named <= there
