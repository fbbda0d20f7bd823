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


# ---- coordinators ---------------------------------------------------------------------------------------


def test_a_table_of_the_cluster_has_its_address_and_what_its_coordinators_need(tmp_path: Path) -> None:
    text = "[cluster]\nurl = 'https://h:1'\ntoken = 's3cr3t'\nca = '/ca.crt'\n[storage.a]\nregion = 'eu'\n"
    found = read_config_file(written(tmp_path, text), "--config")
    assert found == ConfigFile("https://h:1", StorageSettings({"a.region": "eu"}, token="s3cr3t", ca="/ca.crt"))
    assert "s3cr3t" not in repr(found)
    without_address = read_config_file(written(tmp_path, "[cluster]\ntoken = 's3cr3t'\n"), "--config")
    assert (without_address.cluster, without_address.storage.token) == (None, "s3cr3t")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[cluster]\ntokne = 's3cr3t'", "[cluster] wants url, token, ca, found 'tokne'; did you mean token?"),
        ("[cluster]\ntoken = ['s3cr3t']", "[cluster] token: wanted a string, found another value"),
        ("[cluster]\ntoken = ''", "[cluster] token: wanted a string, found another value"),
        ("cluster = ''", "wanted cluster = \"URL\", found ''"),
    ],
)
def test_a_wrong_table_of_the_cluster_is_refused_and_no_token_is_shown(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        read_config_file(written(tmp_path, text), "--config")
    assert found in raised.value.message
    assert "s3cr3t" not in raised.value.message


# M: N-05
def test_a_token_comes_from_the_caller_then_the_environment_then_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used(token: str | None = None, ca: str | None = None) -> tuple[str | None, str | None]:
        settings = settings_here(storage_settings({}, token, ca))
        return settings.token, settings.ca

    assert used() == (None, None)
    monkeypatch.setenv("SPARKLOG_CONFIG", written(tmp_path, "[cluster]\ntoken = 'of-file'\nca = 'ca-of-file'\n"))
    assert used() == ("of-file", "ca-of-file")
    monkeypatch.setenv("SPARKLOG_TOKEN", "of-environment")
    assert used() == ("of-environment", "ca-of-file")
    monkeypatch.setenv("SPARKLOG_CA", "ca-of-environment")
    assert used("given", "ca-given") == ("given", "ca-given")
    monkeypatch.setenv("SPARKLOG_TOKEN", "")
    assert used() == ("of-file", "ca-of-environment")
