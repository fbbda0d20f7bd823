"""docs/replication.md: its snippets set up three stores, lose one, get it back and retire it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import sparklog
from tests.cli.conftest import Cli
from tests.docs.clean_shell import in_clean_shell
from tests.docs.test_maintenance import performed

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "replication.md"
SNIPPETS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
LOST = [text for text in SNIPPETS if "metadata.copies" in text or "cluster restore" in text]
CITED = re.compile(r"(?:\brules?\s|\()\s*((?:[CEFHIS]\d\b(?:,\s+|\s+and\s+|\s+to\s+|(?=\W)))+)")
NO_AGENT_IS_LEFT = "trap 'kill -9 $(jobs -p) 2>/dev/null || true; wait' EXIT"


# M: S-01 P-07 P-11 (kills)
@pytest.mark.slow
def test_the_snippets_run_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = "\n".join(SNIPPETS).replace("/tmp/sparklog-replicas", str(tmp_path))
    printed = in_clean_shell(tmp_path, f'export PATH="$PWD/.venv/bin:$PATH"\n{NO_AGENT_IS_LEFT}\n{text}')
    assert "store b did not take the write" in printed
    assert "lagging" in printed
    assert "loss: store b: the loss is reported" in printed
    assert "moving the replicas of 3 partitions" in printed
    assert "x has copies up to entry 2" in printed
    with sparklog.connect(str(tmp_path / "meta-2")) as cluster:  # M: F-08
        assert cluster.read("payments", partition=0)["value"].to_pylist() == [b"1 paid"]
    with sparklog.connect(str(tmp_path / "chain")) as cluster:
        assert [store.store for store in cluster.stores()] == ["a", "c", "d"]
        assert [set(each.isr) for each in cluster.describe("orders").partitions] == [{"a", "c", "d"}] * 3
        values = [value for at in range(3) for value in cluster.read("orders", partition=at)["value"].to_pylist()]
    assert sorted(values) == [b"1 tea", b"2 cups", b"3 spoons", b"4 plates", b"5 forks", b"6 knives"]


# M: F-08 (kills)
@pytest.mark.parametrize("store", ["x", "y"])
def test_the_steps_for_lost_metadata_run_as_written_from_each_store(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = "/tmp/sparklog-replicas"
    assert [text.count(f"--from x={root}/x") for text in LOST] == [0, 2]
    text = "".join(LOST).replace("\\\n", " ").replace(f"--from x={root}/x", f"--from {store}={root}/{store}")
    here = Cli(str(tmp_path / "meta"), capsys, monkeypatch)
    printed = "".join(performed(here, line) for line in text.replace(root, str(tmp_path)).splitlines() if line)
    assert re.search(r"would restore cluster \w+ at .*, as it was after entry 2", printed), printed
    assert printed.count("restored cluster ") == 1
    assert "1 paid" in printed.rpartition("restored cluster")[2]
    assert "exit code 0" in printed
    assert not re.search(r"exit code [1-9]", printed), printed


def test_every_rule_that_code_or_tests_cite_is_in_the_table() -> None:
    listed = set(re.findall(r"^\| ([A-Z]\d) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    files = [path for folder in ("sparklog", "tests") for path in (ROOT / folder).rglob("*.py")]
    cited = {
        (rule, str(path.relative_to(ROOT)))
        for path in files
        for text in CITED.findall(path.read_text(encoding="utf-8"))
        for rule in re.findall(r"[A-Z]\d", text)
    }
    assert {rule for rule, _ in cited} >= {"E1", "H1"}
    assert [(rule, path) for rule, path in sorted(cited) if rule not in listed] == []
