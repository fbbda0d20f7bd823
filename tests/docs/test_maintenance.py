"""docs/maintenance.md: its snippets run, and its commands, names and numbers are those of the code."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import sparklog
from sparklog.chain import old_entries
from sparklog.chain.snapshot.old_snapshots import KEPT
from sparklog.chain.snapshot.snapshot_writer import SNAPSHOT_EVERY
from sparklog.core.describe.checkpoints import CHECKPOINTS
from sparklog.core.maintenance.differences import DifferenceKind
from sparklog.maintenance.jobs import JOBS
from sparklog.maintenance.task_runner import LocalTasks
from sparklog.spark.maintain.verify_frame import SCHEMA
from sparklog.storage.keys import ENTRIES_PER_BLOCK, block_entries
from sparklog.storage.object_store import StoredKey
from tests.cli.conftest import Cli
from tests.maintenance.damaged_log import damaged_log

PAGE = (Path(__file__).parents[2] / "docs" / "maintenance.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```(bash|python)\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def here(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line at the cluster of the page. Jobs that would start Spark work in this process."""
    monkeypatch.setattr("sparklog.spark.maintain.spark_tasks.SparkTasks", lambda session: LocalTasks())
    return Cli(str(tmp_path / "meta"), capsys, monkeypatch)


def performed(here: Cli, line: str) -> str:
    """What a line of the shell prints. Its command of sparklog runs in this process: a new one takes a second."""
    before, _, last = line.rpartition(" | ")
    command, _, otherwise = last.partition(" || ")
    words = shlex.split(command, comments=True)
    if words[:1] != ["sparklog"]:
        return subprocess.run(["bash", "-euc", line], check=True, capture_output=True, text=True).stdout
    said = here(*words[1:], stdin=performed(here, before) if before else "")
    assert bool(said.code) == bool(otherwise), (line, said)
    return f"{said.out}{said.err}exit code {said.code}\n"


# M: R-05 R-06
def test_the_snippets_for_the_shell_run_one_after_the_other(here: Cli, tmp_path: Path) -> None:
    printed = ""
    for kind, text in SNIPPETS:
        snippet = text.replace("/tmp/sparklog-maintenance", str(tmp_path))
        if kind == "python" and "sparklog.connect" in snippet:
            exec(snippet, {})
            printed += here.capsys.readouterr().out
        elif kind == "bash":
            printed += "".join(performed(here, line) for line in snippet.splitlines())
    assert re.search(r"^retention +done", printed, re.MULTILINE), "run-all"
    assert re.search(r"^retention +2", printed, re.MULTILINE), "job status has a time"
    assert "would delete 12 records" in printed
    assert "deleted 12 records" in printed
    assert "{0: 15}" in printed
    assert "100% is new (min.cleanable.dirty.ratio=0.1)" in printed
    assert "object-missing" in printed
    assert "exit code 5" in printed
    assert "run 'sparklog job recovery --full --store b'" in printed
    assert "of 7: the next day has the next one" in printed
    assert "payments-0 on b" in printed, "the plan of recovery"
    with sparklog.connect(here.url) as cluster:
        assert cluster.describe("payments").records == 15


def test_the_snippets_of_recovery_run_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    log = damaged_log()
    log.damage("b", 2, "flipped")
    names: dict[str, Any] = {
        "cluster": log.url,
        "store": log.world.store("b"),
        "chain_id": log.world.state.chain_id,
    }
    for kind, text in SNIPPETS:
        if kind == "python" and ("run_recovery" in text or "newest_checkpoint" in text):
            exec(text, names)
    printed = capsys.readouterr().out
    assert "15 objects" in printed
    assert "0 failed: 0" in printed
    assert "0\n2\nt 0 9\nt 1 3\n" in printed
    assert "[('t', (0, 9)), ('t', (1, 3))]" in printed
    log.check()
    log.world.cluster.close()


def test_the_commands_of_vacuum_and_of_the_chain_run(here: Cli) -> None:
    assert here("cluster", "init").code == 0
    assert here("topic", "create", "orders").code == 0
    commands = re.findall(r"^    (sparklog .*)$", PAGE, re.MULTILINE)
    inline = [command for command in re.findall(r"`(sparklog chain .*?)`", PAGE) if "ID" not in command]
    assert (len(commands), len(inline)) == (2, 3)
    for command in (*commands, *inline):
        performed(here, command)


def test_its_numbers_are_those_of_the_code() -> None:
    assert ENTRIES_PER_BLOCK == 4_096
    assert (KEPT, SNAPSHOT_EVERY) == (3, 1_000)
    whole = tuple(StoredKey("k", 1, 0) for _ in block_entries(0))
    assert old_entries.OldEntries(0, whole).requests == 14


def test_every_job_checkpoint_kind_and_column_is_on_the_page() -> None:
    first_table = PAGE.partition("\n\nEach is a command")[0]
    assert set(re.findall(r"^\| `([a-z]+)` \|", first_table, re.MULTILINE)) == {*JOBS, "materialize"}
    assert re.findall(r"^\| `([a-z-]+-checkpoint)` \|", PAGE, re.MULTILINE) == list(CHECKPOINTS)
    for name in [*DifferenceKind, *SCHEMA.names]:
        assert re.search(rf"\b{name}\b", PAGE), name
