"""docs/groups.md: its snippets run one after the other."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from tests.docs.clean_shell import in_clean_shell

PAGE = Path(__file__).parents[2] / "docs" / "groups.md"
SNIPPET = re.compile(r"```(bash|python)\n(.*?)```", re.DOTALL)


def test_the_page_of_groups(tmp_path: Path) -> None:  # M: I-07
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = PAGE.read_text(encoding="utf-8").replace("/tmp/sparklog-groups", str(tmp_path))
    lines = [code if kind == "bash" else f"python -c {shlex.quote(code)}" for kind, code in SNIPPET.findall(text)]
    printed = in_clean_shell(tmp_path, 'export PATH="$PWD/.venv/bin:$PATH"\n' + "\n".join(lines))
    assert "\n30\n" in printed, "each record was printed once"
    assert "would reset the offsets of group billing in 3 partitions: add --execute" in printed
    assert "{('orders', 0): 4}\n30\n" in printed
    assert printed.endswith("\n0\n0\n")
