"""The provider is found where Terraform itself looks, and nothing of a machine is written down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terraform import program
from tests.terraform.program import Missing, Workspace


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    program.plugin_folder.cache_clear()
    for name in ("TF_PLUGIN_DIR", "TF_PLUGIN_CACHE_DIR", "XDG_DATA_HOME", "XDG_DATA_DIRS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield
    program.plugin_folder.cache_clear()


def _provider_in(folder: Path) -> Path:
    place = folder / "registry.example" / "hashicorp" / "aws" / "5.100.0" / "linux_amd64"
    place.mkdir(parents=True)
    (place / "terraform-provider-aws_v5.100.0_x5").touch()
    return folder


def test_the_folder_that_is_named_is_taken_before_all_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _provider_in(tmp_path / "home" / ".terraform.d" / "plugins")
    monkeypatch.setenv("TF_PLUGIN_DIR", str(_provider_in(tmp_path / "named")))
    assert program.plugin_folder() == tmp_path / "named"


def test_a_named_folder_without_the_provider_is_not_replaced_by_another_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _provider_in(tmp_path / "home" / ".terraform.d" / "plugins")
    monkeypatch.setenv("TF_PLUGIN_DIR", str(tmp_path))
    with pytest.raises(Missing, match="set TF_PLUGIN_DIR"):
        program.plugin_folder()


@pytest.mark.parametrize("place", [".terraform.d/plugins", ".local/share/terraform/plugins"])
def test_the_places_of_terraform_are_searched(place: str, tmp_path: Path) -> None:
    folder = _provider_in(tmp_path / "home" / place)
    assert program.plugin_folder() == folder


def test_no_setting_of_the_shell_reaches_terraform(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_terraform: None
) -> None:
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(tmp_path / "not-there"))
    monkeypatch.setenv("AWS_PROFILE", "somebody")
    monkeypatch.setenv("TF_LOG", "trace")
    assert Workspace(tmp_path).run("version").stderr == ""
