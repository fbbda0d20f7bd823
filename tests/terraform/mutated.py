"""Applies mutations of terraform/ to copies, and finds what the check says of each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.terraform.deployment import Deployment, be_offline, planned, resembling
from tests.terraform.inputs import empty_dist, of_example
from tests.terraform.mutation import Mutation
from tests.terraform.program import TerraformFailed
from tests.terraform.rules.rules import RULES
from tests.terraform.trees import copy_tree, example, module

# The filter of a lifecycle rule, where none is given.
BROKEN_BY_MADE_UP_VALUES: Final = {"log_data_never_expires"}


@dataclass(frozen=True)
class Usual:
    """An example as it is, and what rules complain about if the defaults of the provider are made up."""

    deployment: Deployment
    complaints: Mapping[str, set[str]]


UsualOf = Callable[[str], Usual]


def usual_of(tree: Path, dist: Path) -> UsualOf:
    """Plans examples without a mutation, each once."""

    @cache
    def of(name: str) -> Usual:
        workspace = example(tree, name)
        workspace.init()
        be_offline(workspace)
        variables = of_example(name, dist)
        deployment = planned(workspace, variables)
        made_up = resembling(deployment, workspace, variables)
        return Usual(deployment, {rule: set(RULES[rule](made_up)) for rule in RULES})

    return of


def complaints_about(mutation: Mutation, usual: UsualOf, folder: Path) -> list[str]:
    """What the check complains about once a copy of terraform/ has the mutation."""
    tree = copy_tree(folder)
    file = tree / mutation.file
    file.write_text(file.read_text().replace(mutation.text, mutation.without))
    try:
        return _found(mutation, usual, tree, empty_dist(folder / "dist"))
    finally:
        shutil.rmtree(tree)


def _found(mutation: Mutation, usual: Callable[[str], Usual], tree: Path, dist: Path) -> list[str]:
    """What the check complains about."""
    if mutation.check == "tests":
        workspace = module(tree, Path(mutation.file).parts[1])
        workspace.init()
        done = workspace.run("test", "-no-color", may_fail=True)
        return [line for line in done.stdout.splitlines() if line.endswith("... fail") and mutation.fails in line]
    workspace = example(tree, mutation.example)
    workspace.init()
    if mutation.check == "validate":
        return [each for each in workspace.validate() if mutation.fails in each]
    be_offline(workspace)
    variables = of_example(mutation.example, dist)
    if mutation.check == "plan":
        with pytest.raises(TerraformFailed) as refused:
            workspace.plan(variables)
        return [mutation.fails] if mutation.fails in str(refused.value) else []
    without = usual(mutation.example)
    made_up = resembling(without.deployment, workspace, variables)
    return sorted(set(RULES[mutation.fails](made_up)) - without.complaints[mutation.fails])
