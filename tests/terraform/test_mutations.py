"""The check notices: each mutation of terraform/ breaks the rule, the validation or the test that it names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.terraform.deployment import be_offline, planned
from tests.terraform.inputs import empty_dist, of_example
from tests.terraform.mutation import Mutation
from tests.terraform.mutations import MUTATIONS
from tests.terraform.rules.rules import RULES
from tests.terraform.trees import TERRAFORM, copy_tree, example, module

every_mutation = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)


@every_mutation
def test_the_text_of_a_mutation_is_found_once_and_its_check_exists(mutation: Mutation) -> None:
    assert (TERRAFORM / mutation.file).read_text().count(mutation.text) == 1
    assert mutation.check != "rule" or mutation.fails in RULES


def test_mutations_have_names_of_their_own_and_are_many() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS) >= 20


@pytest.mark.campaign
@pytest.mark.usefixtures("has_provider")
@every_mutation
def test_a_mutation_fails_its_check(mutation: Mutation, tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    file = tree / mutation.file
    file.write_text(file.read_text().replace(mutation.text, mutation.without))
    found = _found(mutation, tree, empty_dist(tmp_path / "dist"))
    shutil.rmtree(tree)
    assert found
    print(mutation.name, *found, sep="\n  ")


def _found(mutation: Mutation, tree: Path, dist: Path) -> list[str]:
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
    return RULES[mutation.fails](planned(workspace, of_example(mutation.example, dist)))
