"""The config file: the cluster's address, and the settings of its stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklog.core.config.storage import StorageSettings, storage_settings
from sparklog.core.errors import InvalidOption
from sparklog.storage.config_file import ConfigFile, read_config_file, settings_here

PROJECT = Path(__file__).parents[2]


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "x.toml"
    file.write_text(text)
    return str(file)


def test_tables_of_stores_become_their_settings(tmp_path: Path) -> None:
    text = 'cluster = "s3://b/p"\n[storage.metadata]\npath_style = true\ntimeout_ms = 500\nsecret_access_key = "x"\n'
    found = read_config_file(written(tmp_path, text), "--config")
    settings = StorageSettings(
        {"metadata.path_style": "true", "metadata.timeout_ms": "500"}, {"metadata.secret_access_key": "x"}
    )
    assert found == ConfigFile("s3://b/p", settings)


def test_the_file_that_comes_along_is_legal() -> None:
    assert read_config_file(str(PROJECT / "conf" / "sparklog.toml"), "--config").cluster


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("clutser = 'x'", "wanted cluster, job_command, storage, found 'clutser'; did you mean cluster?"),
        ("cluster = 5", 'wanted cluster = "URL", found 5'),
        ("job_command = 5", 'wanted job_command = "local", "none" or a command, found 5'),
        ("storage = 's3cr3t'", "wanted tables [storage.<store>], found another value"),
        ("[storage]\npassword = 's3cr3t'", "wanted tables [storage.<store>], found another value"),
        ("[storage.a]\npassword = ['s3cr3t']", "[storage.a] password: wanted a string, a number or true or false"),
    ],
)
def test_a_wrong_file_is_refused_and_no_value_of_a_store_is_shown(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        read_config_file(written(tmp_path, text), "SPARKLOG_CONFIG")
    assert told in raised.value.message
    assert raised.value.message.startswith("SPARKLOG_CONFIG: ")
    assert "s3cr3t" not in raised.value.message


def test_settings_of_a_process_are_those_given_over_those_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = storage_settings({"metadata.region": "eu"})
    assert settings_here(given) == given
    file = written(tmp_path, "[storage.metadata]\nregion = 'us'\npassword = 'p'\n")
    monkeypatch.setenv("SPARKLOG_CONFIG", file)
    assert settings_here(given) == storage_settings({"metadata.region": "eu", "metadata.password": "p"})
