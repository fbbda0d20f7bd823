"""Addresses and settings of S3 stores."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidInput
from sparklog.storage.open_store import absolute_url, join_url, open_store
from sparklog.storage.s3.settings import S3Settings, parse_s3_url, read_s3_settings


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3a://bucket/a/b/", "s3://bucket/a/b"),
        ("s3n://bucket/a", "s3://bucket/a"),
        ("S3://my.bucket-1/a", "s3://my.bucket-1/a"),
    ],
)
def test_an_address_has_one_spelling(url: str, canonical: str) -> None:
    assert absolute_url(url) == canonical


def test_a_store_is_addressed_from_its_cluster() -> None:
    assert join_url("s3://bucket/cluster", ".") == "s3://bucket/cluster"
    assert join_url("s3://bucket/cluster", "../data") == "s3://bucket/data"
    with pytest.raises(InvalidInput):
        join_url("s3://bucket/cluster", "../../elsewhere")


@pytest.mark.parametrize(
    "url", ["s3://", "s3:///a", "s3://b", "s3://bucket/../a", "s3://bucket//a", "s3://buck et/a", "s3://-a-"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="s3://bucket/prefix"):
        open_store(url)


def test_keys_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInput) as refused:
        open_store("s3://id:kept-secret@bucket/a")
    assert "kept-secret" not in str(refused.value)
    with pytest.raises(InvalidInput) as refused:
        open_store("s3://bucket", {"endpoint_url": "http://id:kept-secret@host:9000"})
    assert "kept-secret" not in str(refused.value)


def test_a_prefix_and_a_key_fit_s3_together() -> None:
    store = open_store(f"s3://bucket/{'/'.join(['x' * 250] * 4)}")
    with pytest.raises(InvalidInput, match="1024"):
        store.get("y" * 100)


def test_settings_are_read_from_their_texts() -> None:
    assert read_s3_settings({}) == S3Settings()
    found = read_s3_settings(
        {"path_style": "True", "timeout_ms": "5000", "encryption": "AES256", "region": "eu-west-1"}
    )
    assert found == S3Settings(path_style=True, timeout_ms=5000, encryption="AES256", region="eu-west-1")
    assert parse_s3_url("s3://bucket/a") == ("bucket", "a/")


def test_an_unknown_setting_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidInput, match="did you mean endpoint_url"):
        open_store("s3://bucket", {"endpoint-url": "http://host"})


@pytest.mark.parametrize(
    "given",
    [
        {"path_style": "maybe"},
        {"timeout_ms": "soon"},
        {"timeout_ms": "1"},
        {"encryption": "rot13"},
        {"request_payer": "me"},
        {"access_key_id": "a"},
        {"secret_access_key": "kept-secret"},
        {"session_token": "kept-secret"},
        {"profile": "p", "access_key_id": "a", "secret_access_key": "kept-secret"},
        {"kms_key_id": "k"},
        {"kms_key_id": "k", "encryption": "AES256"},
        {"endpoint_url": "host:9000"},
        {"endpoint_url": "ftp://host"},
    ],
    ids=lambda given: ",".join(given),
)
def test_settings_that_are_illegal_or_do_not_fit_together_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_store("s3://bucket", given)
    assert "kept-secret" not in str(refused.value)


def test_settings_do_not_show_their_secrets() -> None:
    shown = repr(S3Settings(access_key_id="id", secret_access_key="kept-secret", session_token="kept-secret"))
    assert "kept-secret" not in shown
