"""What the pages link to and what they call a file is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown_pages import PAGES, ROOT, Link, anchors, links

FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|md|toml|sh)|tests/(?:\w+/)*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_of_a_page_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [link for link in links(text) if not leads_somewhere(page, link)] == []
    assert [
        each for each in FILE.findall(text) if not any((ROOT / top / each).exists() for top in ("", "sparklog"))
    ] == []


def leads_somewhere(page: Path, link: Link) -> bool:
    """Whether the file is there, and the anchor in it."""
    target = page if link.file is None else page.parent / link.file
    if not target.exists():
        return False
    return not link.anchor or (target.suffix == ".md" and link.anchor in anchors(target.read_text(encoding="utf-8")))
