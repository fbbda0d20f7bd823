"""The Markdown pages of the repository: their links, and the anchors of their headings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")))

_FENCE = re.compile(r"^(```+).*?^\1\s*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)


class Link(NamedTuple):
    """A link of a page to a file (None: the page itself) and an anchor in it, "" for none."""

    file: str | None
    anchor: str


def links(text: str) -> list[Link]:
    """The links of a page, without those to other sites and those in code."""
    found = _LINK.findall(_CODE.sub("", _FENCE.sub("", text)))
    inside = [target for target in found if not re.match(r"[a-z]+:", target)]
    return [Link(file or None, anchor) for file, _, anchor in (target.partition("#") for target in inside)]


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as both GitHub and zensical make them: those that differ are left out."""
    names: dict[str, int] = {}
    both: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        github = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        site = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip())
        count = names.get(github, 0)
        names[github] = count + 1
        if github == site and not count:  # the numbers of repeated headings differ, too
            both.add(github)
    return both
