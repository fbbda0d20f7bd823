"""A demo's environment: the packages of requirements/demo.lock, unless .venv has them all or a store needs more."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
LOCKED = re.compile(r"^([\w.-]+==.*?)(?=^[\w.-]+==|\Z)", re.DOTALL | re.MULTILINE)


def locked(kind: str) -> dict[str, str]:
    """The pin with its hashes by the name of each package, and by its version if there are several."""
    text = (PROJECT / "requirements" / f"{kind}.lock").read_text(encoding="utf-8")
    text = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE)
    return {pin.split()[0]: pin.strip() for pin in LOCKED.findall(text)}


def needed(package: Distribution, extra: str, found: set[str]) -> set[str]:
    """The names of all packages that it needs here with this extra, in `found`."""
    for requirement in map(Requirement, package.requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            for further in ("", *requirement.extras):
                asked = f"{canonicalize_name(requirement.name)}[{further}]"
                if asked not in found:
                    found.add(asked)
                    needed(distribution(requirement.name), further, found)
    return {name.partition("[")[0] for name in found}


def test_the_demos_have_all_that_they_need_with_the_pins_of_everything() -> None:
    demo, everything = locked("demo"), locked("dev")
    assert demo.items() <= everything.items()
    assert len(demo) < len(everything) / 3
    names = {pin.partition("==")[0] for pin in demo}
    assert needed(distribution("sparklog"), "demo", set()) - {"sparklog"} <= names
    assert not re.search(r"https?://|--(extra-)?index|--find-links", "\n".join(demo.values()))


@pytest.mark.parametrize(
    ("arguments", "there", "wanted"),
    [
        ("demo", None, "scripts/setup.sh demo"),
        ("demo-full", None, "scripts/setup.sh demo"),
        ("demo-cluster", None, "scripts/setup.sh demo"),
        ("demo STORE=s3", None, "scripts/setup.sh"),
        ("demo-full STORE=hdfs://host:8020/path", ".ready-demo", "scripts/setup.sh"),
        ("setup", ".ready-demo", "scripts/setup.sh"),
        ("demo", ".ready-demo", None),
        ("demo", ".ready", None),
        ("demo", "old .ready", "scripts/setup.sh"),
        ("demo", "old .ready-demo", "scripts/setup.sh demo"),
    ],
)
def test_a_demo_installs_no_more_than_it_needs_and_never_less_than_there_was(
    tmp_path: Path, arguments: str, there: str | None, wanted: str | None
) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements", "jvm", "scripts"):
        subprocess.run(["cp", "-R", str(PROJECT / name), str(tmp_path)], check=True)
    if there:
        (tmp_path / ".venv").mkdir()
        mark = tmp_path / ".venv" / there.removeprefix("old ")
        mark.touch()
        locked_at = (tmp_path / "pyproject.toml").stat().st_mtime
        seconds = -60 if there.startswith("old ") else 60
        os.utime(mark, (locked_at + seconds, locked_at + seconds))
    make = ["make", "--dry-run", *arguments.split()]
    clean = {"PATH": os.environ["PATH"]}
    planned = subprocess.run(make, cwd=tmp_path, env=clean, check=True, capture_output=True, text=True).stdout
    found = [line.strip() for line in planned.splitlines() if line.startswith("scripts/setup.sh")]
    assert found == ([wanted] if wanted else [])
