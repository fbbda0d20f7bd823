"""The check notices: each mutation of terraform/ breaks the rule, the validation or the test that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terraform.inputs import empty_dist
from tests.terraform.mutated import BROKEN_BY_MADE_UP_VALUES, UsualOf, complaints_about, usual_of
from tests.terraform.mutation import Mutation
from tests.terraform.mutations import MUTATIONS
from tests.terraform.mutations_of_wiring import OF_WIRING
from tests.terraform.rules.rules import RULES
from tests.terraform.trees import TERRAFORM


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_text_of_a_mutation_is_found_once_and_its_check_exists(mutation: Mutation) -> None:
    assert (TERRAFORM / mutation.file).read_text().count(mutation.text) == 1
    assert mutation.check != "rule" or mutation.fails in RULES


def test_mutations_have_names_of_their_own_and_are_many() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 20


@pytest.fixture(scope="module")
def usual(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> UsualOf:
    return usual_of(tree, empty_dist(tmp_path_factory.mktemp("dist")))


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.usefixtures("has_provider")
@pytest.mark.parametrize(
    "mutation", [each for each in MUTATIONS if each not in OF_WIRING], ids=lambda mutation: mutation.name
)
def test_a_mutation_fails_its_check(mutation: Mutation, usual: UsualOf, tmp_path: Path) -> None:
    complaints = complaints_about(mutation, usual, tmp_path)
    assert complaints
    print(mutation.name, *complaints, sep="\n  ")


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.usefixtures("has_provider")
def test_without_a_mutation_only_made_up_values_break_a_rule(usual: UsualOf) -> None:
    assert {rule for rule, wrong in usual("complete").complaints.items() if wrong} <= BROKEN_BY_MADE_UP_VALUES
