"""How often a byte is copied on each path is what docs/copies.md says."""

from __future__ import annotations

from tests.docs.copies import PAGE, measure, page_with, table


# M: S-08
def test_the_page_has_the_copies_that_are_counted() -> None:
    counted = measure()
    assert PAGE.read_text(encoding="utf-8") == page_with(table(counted)), "run: python -m tests.docs.copies"
