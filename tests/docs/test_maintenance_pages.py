"""docs/maintenance-delete-records.md and docs/maintenance-schedules.md: their snippets run one after the other."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import sparklog
from tests.docs.clean_shell import in_clean_shell

DOCS = Path(__file__).parents[2] / "docs"
SNIPPET = re.compile(r"```(bash|python)\n(.*?)```", re.DOTALL)


def run_snippets(page: str, folder: Path, elsewhere: str) -> str:
    """What the snippets print in `folder`, which takes the place of the folder that the page names."""
    (folder / ".venv").symlink_to(sys.prefix)
    texts = SNIPPET.findall((DOCS / page).read_text(encoding="utf-8").replace(elsewhere, str(folder)))
    lines = [text if kind == "bash" else f"python -c {shlex.quote(text)}" for kind, text in texts]
    return in_clean_shell(folder, 'export PATH="$PWD/.venv/bin:$PATH"\n' + "\n".join(lines))


# M: R-05
def test_the_page_of_delete_records(tmp_path: Path) -> None:
    printed = run_snippets("maintenance-delete-records.md", tmp_path, "/tmp/sparklog-deletion")
    assert "would delete 12 records" in printed
    assert "deleted 12 records" in printed
    assert "{0: 15, 1: 0}" in printed
    with sparklog.connect(str(tmp_path / "cluster")) as cluster:
        assert cluster.describe("orders").records == 15


# M: R-06
def test_the_page_of_schedules(tmp_path: Path) -> None:
    printed = run_snippets("maintenance-schedules.md", tmp_path, "/tmp/sparklog-schedules")
    assert re.search(r"^retention +done", printed, re.MULTILINE), "run-all"
    assert re.search(r"^retention +2", printed, re.MULTILINE), "job status has a time"
