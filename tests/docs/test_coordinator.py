"""docs/coordinator.md: its snippets start a coordinator, write through it, and stop it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import sparklog
from sparklog.core.types import EntryNumber
from tests.docs.clean_shell import in_clean_shell
from tests.docs.test_replication import NO_AGENT_IS_LEFT
from tests.servers.local_server import free_port

PAGE = Path(__file__).parents[2] / "docs" / "coordinator.md"
SNIPPETS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


# M: N-01
@pytest.mark.slow
def test_the_snippets_run_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = "\n".join(SNIPPETS).replace("/tmp/sparklog-coordin", f"{tmp_path}/coordin").replace("7400", str(free_port()))
    printed = in_clean_shell(tmp_path, f'export PATH="$PWD/.venv/bin:$PATH"\n{NO_AGENT_IS_LEFT}\n{text}')
    assert "2 records, 664 B appended to orders-" in printed
    assert "sparklog_active_controller 1.0\nsparklog_partitions 3.0\n" in printed.replace("\r", "")
    assert "<title>orders · sparklog</title>" in printed
    with sparklog.connect(str(tmp_path / "coordinated")) as cluster:
        follower = cluster.connection.follower
        numbers = (EntryNumber(n) for n in range(follower.head.n + 1))
        authors = [entry.author.kind for entry in follower.entries(numbers)]
        values = [value for at in range(3) for value in cluster.read("orders", partition=at)["value"].to_pylist()]
    assert (authors[0], authors[1], authors[-1]) == ("client", "coordinator", "client")
    assert sorted(values) == [b"1 tea", b"2 cups", b"3 spoons"]
