"""The snippets of the README run as they stand there, in their order, in one program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SNIPPET = re.compile(r"```(python|bash)\n(.*?)```", re.DOTALL)


@pytest.mark.spark
def test_the_snippets_of_the_readme_run(tmp_path: Path) -> None:
    snippets = [(kind, text.replace("/tmp/sparklog-readme", str(tmp_path / "cluster"))) for kind, text in found()]
    assert len(snippets) == 5
    python = "\n".join(text for kind, text in snippets if kind == "python")
    surroundings = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    _run([sys.executable, "-c", python], tmp_path, surroundings)
    (shell,) = [text for kind, text in snippets if kind == "bash"]
    surroundings["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    assert '"value":"3 spoons"' in _run(["bash", "-euc", shell], tmp_path, surroundings)


def found() -> list[tuple[str, str]]:
    return SNIPPET.findall((ROOT / "README.md").read_text())


def _run(command: list[str], folder: Path, surroundings: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
