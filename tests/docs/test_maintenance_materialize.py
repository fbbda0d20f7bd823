"""docs/maintenance-materialize.md: its commands are what the jobs take. tests/spark/materialize runs the jobs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sparklog.cli.main import run_job
from sparklog.cli.produce_files import main as produce

PAGE = Path(__file__).parents[2] / "docs" / "maintenance-materialize.md"
TEXT = "\n".join(re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
COMMANDS = re.findall(r"jobs/(\w+)\.py (.*)", TEXT.replace("\\\n", " "))


def test_the_page_has_commands() -> None:
    assert [job for job, _ in COMMANDS] == ["materialize", "materialize", "materialize", "produce"]


@pytest.mark.parametrize(("job", "arguments"), COMMANDS)
def test_a_command_is_taken_and_only_its_cluster_is_missing(
    job: str, arguments: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(arguments.replace("/tmp/demo", f"{tmp_path}/none"))
    assert (produce(words) if job == "produce" else run_job(job, words)) == 3
    assert "CLUSTER_NOT_FOUND" in capsys.readouterr().err
