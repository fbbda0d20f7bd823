"""docs/maintenance-verify.md: its shell snippets run, and it names every kind of difference."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sparklog.core.differences import DifferenceKind
from sparklog.spark.differences import SCHEMA
from tests.docs.clean_shell import in_clean_shell

PAGE = Path(__file__).parents[2] / "docs" / "maintenance-verify.md"
TEXT = PAGE.read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)


def test_the_snippets_run_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = "\n".join(SNIPPETS).replace("/tmp/sparklog-verify", str(tmp_path))
    printed = in_clean_shell(tmp_path, f'export PATH="$PWD/.venv/bin:$PATH"\n{text}')
    assert "object-missing" in printed
    assert "exit code 5" in printed
    assert "run 'sparklog job recovery --full --store b'" in printed
    assert "of 7: the next day has the next one" in printed


def test_every_kind_and_column_is_on_the_page() -> None:
    for name in [*DifferenceKind, *SCHEMA.names]:
        assert re.search(rf"\b{name}\b", TEXT), name
