"""The check notices: each mutation of terraform/ breaks the rule, the validation or the test that it names."""

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
from tests.terraform.mutations import MUTATIONS
from tests.terraform.program import TerraformFailed
from tests.terraform.rules.rules import RULES
from tests.terraform.trees import TERRAFORM, copy_tree, example, module

# The filter of a lifecycle rule, where none is given.
_BROKEN_BY_MADE_UP_VALUES: Final = {"log_data_never_expires"}


@dataclass(frozen=True)
class Usual:
    """An example as it is, and what rules complain about if the defaults of the provider are made up."""

    deployment: Deployment
    complaints: Mapping[str, set[str]]


every_mutation = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)


@every_mutation
def test_the_text_of_a_mutation_is_found_once_and_its_check_exists(mutation: Mutation) -> None:
    assert (TERRAFORM / mutation.file).read_text().count(mutation.text) == 1
    assert mutation.check != "rule" or mutation.fails in RULES


def test_mutations_have_names_of_their_own_and_are_many() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS) >= 20


@pytest.fixture(scope="module")
def usual(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Usual]:
    """An example without a mutation."""
    dist = empty_dist(tmp_path_factory.mktemp("dist"))

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


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.usefixtures("has_provider")
@every_mutation
def test_a_mutation_fails_its_check(mutation: Mutation, usual: Callable[[str], Usual], tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    file = tree / mutation.file
    file.write_text(file.read_text().replace(mutation.text, mutation.without))
    found = _found(mutation, usual, tree, empty_dist(tmp_path / "dist"))
    shutil.rmtree(tree)
    assert found
    print(mutation.name, *found, sep="\n  ")


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.usefixtures("has_provider")
def test_without_a_mutation_only_made_up_values_break_a_rule(usual: Callable[[str], Usual]) -> None:
    assert {rule for rule, wrong in usual("complete").complaints.items() if wrong} <= _BROKEN_BY_MADE_UP_VALUES


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
