"""The artefacts of a release, built once for all tests of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


# To compress the packages well takes most of the time.
_PROGRAM = """
import sys
sys.path.insert(0, "scripts")
import dist
dist.COMPRESSION = 1
"""
_WITH_FEW_PACKAGES = """
needed = dist.needed
dist.needed = lambda package, extras: [each for each in needed(package, extras) if each.name in ("msgspec", "typer")]
"""


def build(source: Path, target: Path, *, few_packages: bool = False) -> None:
    """Run scripts/dist.py of the tree at `source`. It gets no address of a package index, nor a proxy.

    `few_packages`: the environment holds two of sparklog's dependencies.
    """
    kept = {name: value for name, value in os.environ.items() if not name.lower().startswith(("pip", "http", "uv"))}
    program = _PROGRAM + (_WITH_FEW_PACKAGES if few_packages else "") + "dist.main()\n"
    command = [sys.executable, "-c", program, "--dirty", "--to", str(target)]
    subprocess.run(command, cwd=source, check=True, env=kept)


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make dist` fills."""
    target = tmp_path_factory.mktemp("dist")
    build(ROOT, target)
    return target
