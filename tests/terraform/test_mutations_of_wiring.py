"""The check notices mutations of the wiring, too. A file of its own, so that two workers share the mutations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terraform.inputs import empty_dist
from tests.terraform.mutated import UsualOf, complaints_about, usual_of
from tests.terraform.mutation import Mutation
from tests.terraform.mutations_of_wiring import OF_WIRING

pytestmark = [pytest.mark.campaign, pytest.mark.slow, pytest.mark.usefixtures("has_provider")]


@pytest.fixture(scope="module")
def usual(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> UsualOf:
    return usual_of(tree, empty_dist(tmp_path_factory.mktemp("dist")))


@pytest.mark.parametrize("mutation", OF_WIRING, ids=lambda mutation: mutation.name)
def test_a_mutation_fails_its_check(mutation: Mutation, usual: UsualOf, tmp_path: Path) -> None:
    complaints = complaints_about(mutation, usual, tmp_path)
    assert complaints
    print(mutation.name, *complaints, sep="\n  ")
