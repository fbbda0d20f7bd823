"""Copies of terraform/ that may be changed and planned, and what its files say."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any, Final

import hcl2

from tests.terraform.program import Workspace

TERRAFORM: Final = Path(__file__).parents[2] / "terraform"
MODULES: Final = tuple(sorted(path.name for path in (TERRAFORM / "modules").glob("*") if path.is_dir()))
EXAMPLES: Final = tuple(sorted(path.name for path in (TERRAFORM / "examples").glob("*") if path.is_dir()))
_LABELS: Final = {
    "terraform": 0,
    "locals": 0,
    "variable": 1,
    "output": 1,
    "module": 1,
    "provider": 1,
    "resource": 2,
    "data": 2,
}
_LEFT_OUT: Final = shutil.ignore_patterns(".terraform*", "*.tfstate*", "__pycache__")


def copy_tree(target: Path) -> Path:
    """Copy terraform/ into a folder, and return the copy. The jobs, which it uploads, lie beside it."""
    (target / "jobs").symlink_to(TERRAFORM.parent / "jobs")
    return Path(shutil.copytree(TERRAFORM, target / "terraform", ignore=_LEFT_OUT))


def module(tree: Path, name: str) -> Workspace:
    return Workspace(tree / "modules" / name)


def example(tree: Path, name: str) -> Workspace:
    return Workspace(tree / "examples" / name)


def sources(folder: Path) -> list[Path]:
    """The files of a configuration, without those that a check adds."""
    return [file for file in sorted(folder.glob("*.tf")) if not file.name.endswith("_override.tf")]


@cache
def _parsed(body: str) -> dict[str, Any]:
    return dict(hcl2.loads(body))


def blocks(folder: Path, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """(labels joined by dots, body) of each block of this kind in a folder, as python-hcl2 reads it."""
    found = []
    for file in sources(folder):
        for block in _parsed(file.read_text()).get(kind, ()):
            found += _named(block, _LABELS[kind])
    return found


def _named(block: dict[str, Any], labels: int) -> list[tuple[str, dict[str, Any]]]:
    if labels == 0:
        return [("", block)]
    return [
        (f"{plain(label)}.{name}".rstrip("."), body)
        for label, inner in block.items()
        if not label.startswith("__")
        for name, body in _named(inner, labels - 1)
    ]


def plain(text: str) -> str:
    """A string of Terraform without its quotes."""
    return text.strip('"')
