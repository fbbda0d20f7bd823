"""What tests of terraform/ need: Terraform and its provider, or a skip that names what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terraform.program import Missing, plugin_folder, terraform
from tests.terraform.trees import copy_tree


@pytest.fixture(scope="session")
def has_terraform() -> None:
    try:
        terraform()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def has_provider(has_terraform: None) -> None:
    try:
        plugin_folder()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of terraform/."""
    return copy_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def job_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where jobs run. It gets their environment unpacked, half a GB, and goes at the end."""
    folder = tmp_path_factory.mktemp("jobs")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
