"""docs/security.md: its snippets lead from nothing to a secured coordinator, which lets in whom it should."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

import sparklog
from sparklog.coordinator.access.access_file import parse_access
from tests.docs.clean_shell import in_clean_shell
from tests.docs.test_replication import NO_AGENT_IS_LEFT
from tests.servers.local_server import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)


# M: N-05
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on this machine")
def test_the_snippets_run_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = "\n".join(SNIPPETS).replace("/tmp/sparklog-secured", f"{tmp_path}/secured").replace("7400", str(free_port()))
    printed = in_clean_shell(tmp_path, f'export PATH="$PWD/.venv/bin:$PATH"\n{NO_AGENT_IS_LEFT}\n{text}')
    assert "loader has no right to alter topic 'orders'" in printed
    assert "refused, as it should be" in printed
    folder = tmp_path / "secured"
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    assert [(line["principal"], line["kind"], line.get("error")) for line in lines if "kind" in line] == [
        ("loader", "append", None),
        ("loader", "delete-topic", "TOPIC_AUTHORIZATION_FAILED"),
        ("operator", "add-partitions", None),
    ]
    with sparklog.connect(str(folder / "cluster")) as cluster:
        assert cluster.read("orders", partition=0)["value"].to_pylist() == [b"1 tea"]
        assert cluster.describe("orders").partitions


def test_the_files_that_it_shows_are_legal() -> None:
    config, access = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert set(tomllib.loads(config)["cluster"]) == {"url", "token", "ca"}
    assert [principal.name for principal, _ in parse_access(access.encode()).principals] == ["loader"]
