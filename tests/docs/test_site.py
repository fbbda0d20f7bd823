"""The site of the documentation: every page has its place in the navigation, and is built without a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown_pages import PAGES, ROOT, Link, anchors, links

SITE = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


def in_navigation(part: Any) -> list[str]:
    """The pages of a part of the navigation, in order."""
    if isinstance(part, str):
        return [part]
    return [page for item in (part.values() if isinstance(part, dict) else part) for page in in_navigation(item)]


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(in_navigation(SITE["nav"])) == sorted(str(page.relative_to(ROOT)) for page in PAGES)
    assert in_navigation(SITE["nav"])[0] == "README.md"


def test_links_and_anchors_are_found_as_pages_have_them() -> None:
    page = "# A `b`: c\n[x](y.md#z) [w](#a-b-c) [v](https://a.org/b) `[no](no.md)`\n"
    page += "```\n# no\n[no](no.md)\n```\n## D, e\n## D, e\n"
    assert links(page) == [Link("y.md", "z"), Link(None, "a-b-c")]
    assert anchors(page) == {"a-b-c", "d-e"}


@pytest.mark.slow
def test_the_site_is_built_offline_with_search_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    copied = tmp_path / "project"
    (copied / "scripts").mkdir(parents=True)
    for name in ("docs", "conf", "zensical.toml", *(page.name for page in ROOT.glob("*.md"))):
        subprocess.run(["cp", "-R", str(ROOT / name), str(copied)], check=True)
    (copied / "scripts" / "site.sh").write_bytes((ROOT / "scripts" / "site.sh").read_bytes())
    (copied / ".venv").symlink_to(Path(sys.prefix))
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        ["sh", str(copied / "scripts" / "site.sh")],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = copied / "build" / "site"
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    assert any("INCARNATION" in item["text"] for item in index["items"])
    for page in PAGES:
        name = "index" if page.name == "README.md" else str(page.relative_to(ROOT).with_suffix(""))
        html = (site / f"{name}.html").read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|img|link|iframe)[^>]* (?:src|href)="?(?:https?:)?//', html) == [], page.name
