"""docs/maintenance-recovery.md: its snippets run, and its tables name what the code has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sparklog.core.checkpoints import CHECKPOINTS
from tests.maintenance.damaged_log import damaged_log

PAGE = (Path(__file__).parents[2] / "docs" / "maintenance-recovery.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_snippets_run_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    log = damaged_log()
    log.damage("b", 2, "flipped")
    names: dict[str, Any] = {
        "cluster": log.url,
        "store": log.world.store("b"),
        "chain_id": log.world.state.chain_id,
    }
    for snippet in SNIPPETS:
        exec(snippet, names)
    printed = capsys.readouterr().out
    assert "15 objects" in printed
    assert "0 failed: 0" in printed
    assert "0\n2\nt 0 9\nt 1 3\n" in printed
    assert "[('t', (0, 9)), ('t', (1, 3))]" in printed
    log.check()
    log.world.cluster.close()


def test_the_page_names_every_checkpoint() -> None:
    assert re.findall(r"^\| `([a-z-]+-checkpoint)` \|", PAGE, re.MULTILINE) == list(CHECKPOINTS)
