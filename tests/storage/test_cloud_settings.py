"""What a store in Google Cloud Storage or Azure is opened with and where it lives; no secret is ever said."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sparklog.core.config.storage import SECRET_STORAGE_KEYS
from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.core.names.address_parts import parse_abfs_url
from sparklog.storage.open_store import join_url, open_store

SECRET = "a2VwdC1zZWNyZXQ="


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("gs://bucket", "gs://bucket"),
        ("GCS://bucket/a/b/", "gs://bucket/a/b"),
        ("abfs://logs/a", "abfs://logs/a"),
        ("abfss://logs@me1.dfs.core.windows.net/a/", "abfs://logs@me1.dfs.core.windows.net/a"),
    ],
)
def test_an_address_has_one_spelling(address: str, url: str) -> None:
    assert open_store(address).url == url
    assert open_store(url).url == url
    assert join_url(url, "b") == f"{url}/b"


def test_an_address_may_name_its_account() -> None:
    assert parse_abfs_url("abfs://logs@mine.dfs.core.windows.net/a") == (
        "logs",
        "a/",
        {"account_name": "mine", "account_host": "mine.blob.core.windows.net"},
    )


@pytest.mark.parametrize(
    "address",
    [
        "gs://",
        "gs:bucket/a",
        "gs//bucket",
        "gs://Bucket",
        "gs://bucket/a//b",
        "gs://bucket/../a",
        "abfs://lo",
        "abfs://logs--a",
        "abfs://logs@host/a",
        "abfs:logs/a",
    ],
)
def test_anything_else_is_no_address(address: str) -> None:
    with pytest.raises(InvalidInput):
        open_store(address)


@pytest.mark.parametrize(
    "address",
    ["gs://id:kept-secret@bucket", "abfs://id:kept-secret@host/a", "abfss:kept-secret@host", "abfs://logs/kept@secret"],
)
def test_a_secret_in_an_address_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_store(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"timeout_ms": "1"}, "timeout_ms: wanted"),
        ({"endpoint_url": "https://id:kept-secret@host"}, "endpoint_url: wanted"),
        ({"endpoint": "http://host"}, "did you mean endpoint_url"),
        ({"account_name": "mine"}, "not 'account_name'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        open_store("gs://bucket", settings)
    assert "kept-secret" not in str(refused.value)


def test_the_account_of_the_address_and_that_of_the_settings_are_one() -> None:
    address = "abfs://logs@mine.dfs.core.windows.net"
    open_store(address, {"account_name": "mine", "account_key": SECRET})
    with pytest.raises(InvalidInput, match="the address names 'mine', found 'yours'"):
        open_store(address, {"account_name": "yours"})
    with pytest.raises(InvalidInput, match="not 'account_host'"):
        open_store(address, {"account_host": "elsewhere"})


@pytest.mark.parametrize(
    "settings",
    [
        {"connection_string": f"AccountName=a;AccountKey={SECRET}"},
        {"connection_string": f"AccountName=a;AccountKey={SECRET};BlobEndpoint=http://127.0.0.1:9/a"},
        {"account_name": "a", "account_key": SECRET + "odd"},
        {"account_name": "a", "sas_token": f"sig={SECRET}"},
    ],
)
def test_no_secret_of_azure_is_in_any_error_or_name(settings: dict[str, str]) -> None:
    assert settings.keys() & SECRET_STORAGE_KEYS
    store = open_store("abfs://logs", {**settings, "timeout_ms": "200"})
    assert SECRET not in repr(store) + repr(vars(store))
    with pytest.raises(SparklogError) as failed:
        store.size("a")
    assert SECRET not in str(failed.value)


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [("gs://b-1", "google.oauth2.credentials", "gcs"), ("abfs://b-1", "azure.storage.blob", "azure")],
)
def test_a_missing_package_is_named_with_what_installs_it(
    address: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.startswith(f"sparklog.storage.cloud.{extra}")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidInput, match=rf"pip install 'sparklog\[{extra}\]'"):
        open_store(address).size("a")


def test_opening_a_store_imports_neither_library() -> None:
    code = (
        "import sys; from sparklog.storage.open_store import open_store\n"
        "open_store('gs://bucket'), open_store('abfs://logs')\n"
        "assert not {'google.auth', 'azure', 'requests', 'urllib3'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
