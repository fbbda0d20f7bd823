"""Which cluster, which config file, which format: wherever they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklog.cli.common_options import Settings
from sparklog.core.errors import InvalidInput, InvalidOption


@pytest.mark.parametrize(
    "arguments",
    [
        ["--cluster", "/c", "--format", "json", "topic", "list"],
        ["topic", "--cluster=/c", "list", "--format=json"],
        ["topic", "list", "--format", "json", "--cluster", "/c"],
    ],
)
def test_the_options_of_every_verb_may_stand_anywhere(arguments: list[str]) -> None:
    settings = Settings()
    assert settings.take(arguments) == ["topic", "list"]
    assert (settings.cluster(), settings.json) == ("/c", True)


def test_what_follows_two_dashes_is_left_alone() -> None:
    settings = Settings()
    assert settings.take(["produce", "--", "--cluster", "x"]) == ["produce", "--", "--cluster", "x"]


def test_the_next_command_line_begins_anew() -> None:
    settings = Settings()
    settings.take(["--format", "json"])
    settings.take([])
    assert not settings.json


@pytest.mark.parametrize("arguments", [["--cluster"], ["--cluster="], ["--format", "xml"], ["--format=JSON"]])
def test_an_option_without_a_legal_value_is_refused(arguments: list[str]) -> None:
    with pytest.raises(InvalidOption, match=r"needs a value|wanted table or json"):
        Settings().take(arguments)


def test_the_address_given_first_on_the_command_line_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: tmp_path / f"{name}.toml" for name in ("option", "environment")}
    for name, file in files.items():
        file.write_text(f'cluster = "/{name}-file"\n')
    settings = Settings()
    monkeypatch.setenv("SPARKLOG_CONFIG", str(files["environment"]))
    settings.take([])
    assert settings.cluster() == "/environment-file"
    monkeypatch.setenv("SPARKLOG_CLUSTER", "/environment")
    assert settings.cluster() == "/environment"
    settings.take(["--config", str(files["option"])])
    assert settings.cluster() == "/option-file"
    settings.take(["--config", str(files["option"]), "--cluster", "/option"])
    assert settings.cluster() == "/option"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('clutser = "/c"', "found 'clutser'; did you mean cluster"),
        ("cluster = 1", "wanted cluster = "),
        ("cluster", "is not TOML"),
    ],
)
def test_a_wrong_config_file_is_refused_even_where_it_is_not_needed(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "sparklog.toml"
    file.write_text(text)
    settings = Settings()
    settings.take(["--config", str(file), "--cluster", "/c"])
    with pytest.raises(InvalidOption, match=error):
        settings.cluster()


def test_a_config_key_in_the_place_of_the_file_is_explained() -> None:
    settings = Settings()
    settings.take(["--config", "num.partitions=3", "--cluster", "/c"])
    with pytest.raises(InvalidOption, match="--topic-config KEY=VALUE or --cluster-config KEY=VALUE"):
        settings.cluster()


def test_a_cluster_in_memory_is_refused() -> None:
    settings = Settings()
    settings.take(["--cluster", "memory://x"])
    with pytest.raises(InvalidInput, match="exists in one process"):
        settings.cluster()


def test_the_example_under_conf_is_legal() -> None:
    settings = Settings()
    settings.take(["--config", str(Path(__file__).parents[2] / "conf" / "sparklog.toml")])
    assert settings.cluster().startswith("file:///")


def test_a_command_may_have_options_of_its_own_by_these_names() -> None:
    settings = Settings()
    assert settings.take(["--format", "csv", "--cluster", "/c", "--config", "a=1"], ["--cluster"]) == [
        *("--format", "csv", "--config", "a=1")
    ]
    assert (settings.cluster(), settings.json) == ("/c", False)
