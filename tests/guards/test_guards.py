"""`make guards` can do its work: the text of each guard and the tests that should notice exist."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guards.__main__ import PROJECT
from tests.guards.guard import Guard
from tests.guards.guards import GUARDS


@pytest.mark.parametrize("guard", GUARDS, ids=lambda each: each.name)
def test_the_text_of_each_guard_is_found_once_and_its_tests_exist(guard: Guard) -> None:
    body = (PROJECT / guard.file).read_text()
    assert body.count(guard.text) == 1
    if guard.file.endswith(".py"):
        ast.parse(body.replace(guard.text, guard.without))
    for test in guard.tests:
        file, *names = test.split("::")
        assert {each.partition("[")[0] for each in names} <= _defined(file), test


def test_what_replaces_a_guard_uses_names_that_are_there(tmp_path: Path) -> None:
    for number, guard in enumerate(each for each in GUARDS if each.file.endswith(".py")):  # javac looks at the others
        body = (PROJECT / guard.file).read_text()
        (tmp_path / f"{number}_{guard.name}.py").write_text(body.replace(guard.text, guard.without))
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_guards_have_names_of_their_own() -> None:
    assert len({each.name for each in GUARDS}) == len(GUARDS)


@functools.cache
def _defined(file: str) -> set[str]:
    """The functions and classes of a test file, and of the test files that it imports from."""
    tree = ast.parse((PROJECT / file).read_text())
    found = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    for each in tree.body:  # not those for types only, which may form a circle
        if isinstance(each, ast.ImportFrom) and each.module and each.module.startswith("tests."):
            module = f"{each.module.replace('.', '/')}.py"
            if (PROJECT / module).is_file():
                found |= _defined(module)
    return found
