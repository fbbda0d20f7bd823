"""The artefacts of a release, built once for all tests of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(source: Path, target: Path) -> None:
    """Run scripts/dist.py of the tree at `source`. It gets no address of a package index, nor a proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().startswith(("pip", "http", "uv"))}
    command = [sys.executable, "scripts/dist.py", "--dirty", "--to", str(target)]
    subprocess.run(command, cwd=source, check=True, env=kept)


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make dist` fills."""
    target = tmp_path_factory.mktemp("dist")
    build(ROOT, target)
    return target
