"""docs/maintenance-chain.md: what it says of numbers, messages and commands is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sparklog
from sparklog.chain import old_entries
from sparklog.chain.old_snapshots import KEPT
from sparklog.chain.snapshot_writer import SNAPSHOT_EVERY
from sparklog.cli.main import run
from sparklog.client.bootstrap import init_cluster
from sparklog.storage.keys import ENTRIES_PER_BLOCK, block_entries
from sparklog.storage.object_store import StoredKey

PAGE = (Path(__file__).parents[2] / "docs" / "maintenance-chain.md").read_text(encoding="utf-8")


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKLOG_CLUSTER", str(tmp_path))
    init_cluster(str(tmp_path))
    with sparklog.connect(str(tmp_path)) as cluster:
        cluster.create_topic("orders")
    commands = re.findall(r"^    sparklog (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    inline = [command for command in re.findall(r"`sparklog (chain .*?)`", PAGE) if "ID" not in command]
    assert len(commands) == 2
    for command in (*commands, *inline):
        assert run(command.split()) == 0, command


def test_its_numbers_are_those_of_the_code() -> None:
    assert ENTRIES_PER_BLOCK == 4_096
    assert (KEPT, SNAPSHOT_EVERY) == (3, 1_000)
    whole = tuple(StoredKey("k", 1, 0) for _ in block_entries(0))
    assert old_entries.OldEntries(0, whole).requests == 14
