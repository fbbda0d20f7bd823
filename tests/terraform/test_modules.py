"""Each module is valid and passes its own tests, with a mocked provider; each example is valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terraform.trees import EXAMPLES, MODULES, example, module

pytestmark = [pytest.mark.campaign, pytest.mark.slow, pytest.mark.usefixtures("has_provider")]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_valid_and_passes_its_tests(name: str, tree: Path) -> None:
    workspace = module(tree, name)
    workspace.init()
    assert workspace.validate() == []
    done = workspace.run("test", "-no-color", may_fail=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed" in done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_valid(name: str, tree: Path) -> None:
    workspace = example(tree, name)
    workspace.init()
    assert workspace.validate() == []
