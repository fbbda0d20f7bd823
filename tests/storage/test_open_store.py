"""Addresses of stores: which are taken, how they are spelled, what the others are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklog.core.errors import InvalidInput
from sparklog.storage.local.store import LocalStore
from sparklog.storage.memory import MemoryStore
from sparklog.storage.open_store import absolute_url, is_same_place, join_url, open_store


def test_the_scheme_chooses_the_adapter(tmp_path: Path) -> None:
    assert isinstance(open_store("memory://open"), MemoryStore)
    for address in (str(tmp_path), tmp_path.as_uri(), f"file:{tmp_path}", f"file://localhost{tmp_path}"):
        store = open_store(address)
        assert isinstance(store, LocalStore)
        assert store.url == tmp_path.as_uri()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("/a/b", "file:///a/b"),
        ("//a//b/", "file:///a/b"),
        ("/a/../b/.", "file:///b"),
        ("/", "file:///"),
        ("/a b%20#?", "file:///a%20b%2520%23%3F"),
        ("file:///a%20b%2520%23%3F", "file:///a%20b%2520%23%3F"),
        ("file:///a/", "file:///a"),
        ("FILE:///a", "file:///a"),
        ("rel/ative", "file:///here/rel/ative"),
        (".", "file:///here"),
        ("../up", "file:///up"),
        ("~", "file:///home/me"),
        ("~/log", "file:///home/me/log"),
        ("memory://name/", "memory://name"),
        ("Memory://Name", "memory://Name"),
    ],
)
def test_an_address_has_one_spelling(address: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    monkeypatch.setenv("HOME", "/home/me")
    assert absolute_url(address) == url
    assert absolute_url(url) == url


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://host:8080", "a coordinator"),
        ("https://host:8080,https://other:8080", "a coordinator"),
        ("host:9092", "this is a Kafka address; a cluster is file://, s3://, gs://, abfs://, hdfs:// or http://"),
        ("localhost:9092", "this is a Kafka address"),
        ("a.example.com:9092,b.example.com:9092", "this is a Kafka address"),
        ("10.0.0.1:9092", "this is a Kafka address"),
        ("[::1]:9092", "this is a Kafka address"),
        ("wasb://bucket/prefix", "not wasb://"),
        ("file://host/path", "on this machine"),
        ("file://", "file:///absolute/path"),
        ("file:relative", "file:///absolute/path"),
        ("file://~/log", "file:///absolute/path"),
        ("memory:/name", "memory://name"),
        ("", "a store is a path"),
        ("/a\0b", "no zero byte"),
        ("~no-such-user/log", "user of this machine"),
        ("file:///d/x%ff", "the bytes of UTF-8 behind its % signs"),
        ("file:///d/x%fe", "the bytes of UTF-8 behind its % signs"),
        ("/d/x\udcff", "a path is UTF-8"),
        ("/d/x ", "no blank at its ends"),
        (" file:///d/x", "no blank at its ends"),
        ("s3://bucket/x\n", "no blank at its ends"),
    ],
)
def test_what_is_no_store_is_told_what_would_be_one(address: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_store(address)
    assert said in str(refused.value)
    assert repr(address) in str(refused.value)


def test_opening_a_store_makes_nothing(tmp_path: Path) -> None:
    open_store(str(tmp_path / "store"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("cluster", "store", "url"),
    [
        ("/data/cluster", ".", "file:///data/cluster"),
        ("file:///data/cluster", "zone-a", "file:///data/cluster/zone-a"),
        ("file:///data/cluster", "./zone a%", "file:///data/cluster/zone%20a%25"),
        ("file:///data/with%20space", "../zone-b", "file:///data/zone-b"),
        ("/data", "..", "file:///"),
        ("/data", "/other/disk", "file:///other/disk"),
        ("/data", "file:///other/disk", "file:///other/disk"),
        ("/data", "memory://elsewhere", "memory://elsewhere"),
        ("memory://name", ".", "memory://name"),
        ("memory://name", "zone-a", "memory://name/zone-a"),
        ("memory://name/a", "../b", "memory://name/b"),
    ],
)
def test_a_relative_store_is_found_from_the_cluster(cluster: str, store: str, url: str) -> None:
    assert join_url(cluster, store) == url


@pytest.mark.parametrize(
    ("cluster", "store"),
    [
        ("/data", "../../up"),
        ("memory://name", "../other"),
        ("/data", ""),
        ("/data", "zone-a "),
        ("/data", "host:9092"),
        ("http://coordinator:8080", "."),
    ],
)
def test_a_store_that_leads_nowhere_is_refused(cluster: str, store: str) -> None:
    with pytest.raises(InvalidInput):
        join_url(cluster, store)


@pytest.mark.parametrize(
    "address",
    ["hdfs://u:SECRET@host/p", "s3:id:SECRET@bucket", "s4://id:SEC/RET@b", "http://u:SECRET@host", "s3://id:SECRET@b"],
)
def test_keys_in_an_address_are_refused_and_not_shown(address: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        open_store(address)
    assert "SEC" not in str(raised.value)


@pytest.mark.parametrize("address", ["s3:bucket/log", "hdfs:host/log", "memory:a"])
def test_an_address_without_slashes_is_no_path(address: str) -> None:
    with pytest.raises(InvalidInput, match="'//' after its scheme"):
        open_store(address)


def test_a_path_may_hold_an_at_sign(tmp_path: Path) -> None:
    open_store(str(tmp_path / "me@home")).put_if_absent("a", b"")
    assert (tmp_path / "me@home" / "a").exists()


def test_an_address_that_can_not_be_opened_is_no_other_ones_place(tmp_path: Path) -> None:
    """A mark on a store may have any address, and a restore compares it with its own."""
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_same_place((tmp_path / "link").as_uri(), tmp_path.as_uri())
    assert not is_same_place("file:///a%ff", tmp_path.as_uri())
