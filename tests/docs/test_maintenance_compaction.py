"""docs/maintenance-compaction.md: its commands plan what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from sparklog.maintenance.roll import run_roll
from tests.cli.conftest import Cli, nowhere  # noqa: F401 - a fixture

PAGE = Path(__file__).parents[2] / "docs" / "maintenance-compaction.md"


def test_the_commands_plan_a_compaction(nowhere: Cli) -> None:  # noqa: F811 - the fixture
    (snippet,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert nowhere("cluster", "init").code == 0
    for line in snippet.splitlines():
        before, _, command = line.rpartition("sparklog ")
        text = shlex.split(before)[1].replace("\\n", "\n") if before else ""
        if command.startswith("job roll"):  # the same without Spark
            run_roll(nowhere.url, everything=True)
            continue
        said = nowhere(*shlex.split(command), stdin=text)
        assert said.code == 0, said.err
    assert "100% is new (min.cleanable.dirty.ratio=0.1)" in said.out
