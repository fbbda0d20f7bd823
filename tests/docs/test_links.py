"""What the pages link to and what they call a file is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
LINK = re.compile(r"\]\(([^)#:]+)[^):]*\)")
FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|md|toml|sh)|tests/(?:\w+/)*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_of_a_page_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [each for each in LINK.findall(text) if not (page.parent / each).exists()] == []
    assert [
        each for each in FILE.findall(text) if not any((ROOT / top / each).exists() for top in ("", "sparklog"))
    ] == []
