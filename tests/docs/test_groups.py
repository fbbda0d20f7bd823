"""docs/groups.md: its snippets run one after the other."""

from __future__ import annotations

from pathlib import Path

from tests.docs.test_maintenance_pages import run_snippets


def test_the_page_of_groups(tmp_path: Path) -> None:  # M: I-07
    printed = run_snippets("groups.md", tmp_path, "/tmp/sparklog-groups")
    assert "\n30\n" in printed, "each record was printed once"
    assert "would reset 3 partitions of group billing: add --execute" in printed
    assert "{('orders', 0): 4}\n30\n" in printed
    assert printed.endswith("\n0\n0\n")
